#include "model/cli/model_flags.hpp"

#include <charconv>

#include "arch/files.hpp"
#include "arch/format.hpp"

namespace plumbline::cli {
namespace {

/// What the runtime keeps of the memory unless the user says: serving engines are started with 0.9 of it by default
/// (vLLM's gpu_memory_utilization; TensorRT-LLM's free_gpu_memory_fraction, of what weights leave).
constexpr double kUsualReserve = 0.1;

void set_precision(Workload& workload, const std::string& text) {
  const std::optional<Precision> precision = parse_precision(text);
  if (!precision) {
    throw BadInput("--dtype: expected bf16, fp16, fp8, int8, w4a16, mxfp4 or nvfp4; found '" + text + "'" +
                   did_you_mean(text, {"bf16", "fp16", "fp8", "int8", "w4a16", "mxfp4", "nvfp4", "fp32", "tf32"}));
  }
  workload.precision = *precision;
  workload.precision_given = true;
}

void set_kv_dtype(Workload& workload, const std::string& text) {
  const std::optional<DType> type = parse_dtype(text);
  if (!type || (*type != DType::bf16 && *type != DType::fp16 && *type != DType::fp8)) {
    throw BadInput("--kv-dtype: expected bf16, fp16 or fp8; found '" + text + "'" +
                   did_you_mean(text, {"bf16", "fp16", "fp8"}));
  }
  workload.kv_dtype = *type;
  workload.kv_dtype_given = true;
}

}  // namespace

void add_whole(const Command& app, const std::string& flag, const std::string& help, std::int64_t& target,
               std::int64_t least) {
  app.value(flag, "N", help,
            [flag, &target, least](const std::string& text) { target = whole_number(flag, text, least); });
}

void add_size_flags(const Command& app, Workload& w) {
  add_whole(app, "--batch", "sequences [1]", w.batch, 1);
  add_whole(app, "--prompt", "prompt tokens per sequence: prefill, generate, train; 8k is 8192 [1024]", w.prompt, 1);
  add_whole(app, "--context", "tokens in the KV cache already [decode: 1024, else 0]", w.context, 0);
}

void add_precision_flags(const Command& app, Workload& w) {
  app.value("--dtype", "bf16|fp16|fp8|int8|w4a16|mxfp4|nvfp4",
            "how weights are stored and multiplied [as the model is published]",
            [&w](const std::string& text) { set_precision(w, text); });
  app.value("--kv-dtype", "bf16|fp16|fp8", "how the KV cache is stored [as the model is published]",
            [&w](const std::string& text) { set_kv_dtype(w, text); });
}

void add_reserve_flag(const Command& app, std::string& reserve) {
  app.value("--reserve", "P", "memory that the runtime keeps for itself: 10%, or 8GB [10%]",
            [&reserve](const std::string& text) { reserve = text; });
}

Bytes reserve_of(const std::string& text, Bytes capacity) {
  if (text.empty()) return kUsualReserve * capacity;
  const bool percent = text.back() == '%';
  if (!percent && text.find_first_not_of("0123456789.") != text.npos) {
    try {
      const Bytes bytes = parse_bytes(text);
      if (bytes < capacity) return bytes;
    } catch (const BadInput&) {
    }
  } else {
    const std::string digits = percent ? text.substr(0, text.size() - 1) : text;
    double value = -1;
    const char* end = digits.data() + digits.size();
    const auto [after, error] = std::from_chars(digits.data(), end, value);
    if (error == std::errc() && after == end && value >= 0 && value < 100) return value / 100 * capacity;
  }
  throw BadInput("--reserve: expected a share below 100% such as 10%, or a size below " + format(capacity) +
                 " such as 8GB; found '" + text + "'");
}

}  // namespace plumbline::cli
