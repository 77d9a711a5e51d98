#include "validate/measure/cupti_refusal.hpp"

namespace plumbline {

std::string cupti_refusal(int code, const std::string& call, const std::string& text) {
  const std::string what = "cannot trace kernels: " + call + ": " + text + " (" + std::to_string(code) + "): ";
  switch (code) {  // CUptiResult
    case 35:
      return what + "the driver lets only administrators profile (NVreg_RestrictProfilingToAdminUsers; run as root)";
    case 39: return what + "another profiler is attached; end it first";
    case 33:
    case 40: return what + "not possible on this virtual GPU";
    case 41: return what + "not possible in confidential computing mode";
    case 43: return what + "not possible on a MIG slice";
    case 45: return what + "not possible under WSL on this driver";
    case 999: return what + "no CUDA driver, or one older than this CUPTI";
    default: return what + "CUPTI refused";
  }
}

}  // namespace plumbline
