// Any bytes as a config.json: a sound Llm or BadInput, never a crash. A zero byte parts config and hf_quant_config.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "arch/error.hpp"
#include "ops/llm/llm.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string config(data, data + size), quant;
  if (const auto zero = config.find('\0'); zero != std::string::npos) {
    quant = config.substr(zero + 1);
    config.resize(zero);
  }
  try {
    const plumbline::Llm llm = plumbline::parse_llm(config, quant, "fuzz");
    const bool sound = std::isfinite(llm.params) && llm.params > 0 && llm.active_params <= llm.params &&
                       llm.kv_elements_per_token >= 0 && !llm.stacks.empty() && !llm.main().order.empty();
    if (!sound) std::abort();
  } catch (const plumbline::BadInput&) {
  }
  return 0;
}
