// Stands in for the CUDA driver where there is none, so that PyTorch's autograd runs on fake CUDA tensors
// (tools/count_kept.py, which builds it as libcuda.so.1 and loads it first). No call of it does anything.
static signed char devices = 0;
extern "C" {
void set_devices(int count) { devices = static_cast<signed char>(count); }
int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 0;
  return 0;
}
}
namespace c10::cuda {
bool hasPrimaryContext(signed char) { return false; }
signed char device_count() noexcept { return devices; }
signed char device_count_ensure_non_zero() { return devices; }
}  // namespace c10::cuda
