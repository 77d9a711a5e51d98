#include "model/cli/model_flags.hpp"

namespace plumbline::cli {
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
  app.value("--dtype", "bf16|fp16|fp8|int8|w4a16|w8a16|mxfp4|nvfp4",
            "how weights are stored and multiplied [as the model is published]",
            [&w](const std::string& text) { set_precision("--dtype", text, w); });
  app.value("--kv-dtype", "bf16|fp16|fp8", "how the KV cache is stored [as the model is published]",
            [&w](const std::string& text) { set_kv_dtype("--kv-dtype", text, w); });
}

void add_reserve_flag(const Command& app, std::string& reserve) {
  app.value("--reserve", "P", "memory that the runtime keeps for itself: 10%, or 8GB [10%]",
            [&reserve](const std::string& text) { reserve = text; });
}

}  // namespace plumbline::cli
