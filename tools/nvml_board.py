"""The board by NVML's library, for the tools that measure power: energy in joules, SM clock in MHz, temperature. Lies beside
the tool that takes it."""
import ctypes


class Board:
    """`cpu`: no board, everything reads 0 (a dry run)."""

    def __init__(self, cpu=False):
        self.library = None
        if cpu:
            return
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.nvmlInit_v2()
        self.device = ctypes.c_void_p()
        self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def joules(self):
        value = ctypes.c_ulonglong()
        if self.library:
            self.library.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(value))
        return value.value / 1e3

    def number(self, call, which):
        value = ctypes.c_uint()
        if self.library:
            getattr(self.library, call)(self.device, which, ctypes.byref(value))
        return value.value

    def sm_MHz(self):
        return self.number("nvmlDeviceGetClockInfo", 1)

    def celsius(self):
        return self.number("nvmlDeviceGetTemperature", 0)

    def text(self, call):
        text = ctypes.create_string_buffer(96)
        if self.library:
            getattr(self.library, call)(self.device, text, 96)
        return text.value.decode()

    def name(self):
        return self.text("nvmlDeviceGetName")

    def uuid(self):
        return self.text("nvmlDeviceGetUUID")
