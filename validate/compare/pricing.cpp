#include "validate/compare/pricing.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/stacks/stack.hpp"
#include "ops/plan/text.hpp"
#include "ops/table/text.hpp"
#include "validate/compare/busy.hpp"
#include "validate/compare/heads.hpp"
#include "validate/parallel.hpp"

namespace plumbline {

namespace {

/// The machines that rows ask for, and what was assumed about them.
class RowMachines {
 public:
  explicit RowMachines(const PricingOptions& options) : options_(options) {}

  Machine of(const Measurement& row) {
    const std::string& asked = options_.gpu.empty() ? row.origin.gpu : options_.gpu;
    if (asked.empty()) throw BadInput(row.what.place + ": no gpu column: expected --gpu NAME");
    MachineKey key;
    key.gpu = asked;
    key.calibration_file = options_.calibration_file;
    key.overrides = options_.overrides;
    key.options.stack = options_.rows_attention ? stack_of(options_.stack, row, asked) : options_.stack;
    if (key.options.stack != options_.stack) note(row.origin.stack, key.options.stack);
    key.options.clock = clock_of(row, options_.clock);
    key.options.data = row.what.data;
    Machine machine = machines().get(key);
    for (const std::string& sentence : machine.assumptions()) add(sentence);
    return machine;
  }

  const std::vector<std::string>& assumptions() const { return assumptions_; }

 private:
  void add(const std::string& sentence) {
    if (std::find(assumptions_.begin(), assumptions_.end(), sentence) == assumptions_.end()) {
      assumptions_.push_back(sentence);
    }
  }
  /// Rows of one file name few stacks, and name them again and again.
  void note(const std::string& stack, const StackChoice& choice) {
    if (!noted_.insert(stack + " " + choice.name).second) return;
    if (choice.name != options_.stack.name) add("rows of " + stack + ": priced as the stack " + choice.name);
    else add("attention of " + stack + ": priced with FlashAttention's kernels, which that stack runs");
  }

  const PricingOptions& options_;
  std::vector<std::string> assumptions_;
  std::set<std::string> noted_;
};

/// What the board takes while its clocks run and nothing else does.
Watts waiting_power(const Machine& machine) {
  const std::optional<PowerScalars>& power = machine.rates().power;
  return power ? settled_power(*power, 1, Watts{}) : machine.gpu().idle_power;
}

void price_row(const Measurement& row, const Machine& machine, Predictor& predictor, OpPrediction& scratch,
               Comparison& out) {
  out.gpu = machine.gpu().name;
  out.op = op_name(row.what.op);
  out.dtype = dtype_text(row.what.op);
  out.shape = row.what.shape;
  out.place = row.what.place;
  out.measured = row.time;
  out.measured_power = power_while_busy(row, waiting_power(machine), machine.gpu().tdp);
  try {
    out.predicted = predict_as_measured(row, machine, predictor, scratch);
    out.roofline = roofline(as_called(row), machine.gpu());
  } catch (const Error& error) {
    out.error = error.what();
    return;
  }
  out.low = out.predicted * (scratch.low / scratch.time);
  out.high = out.predicted * (scratch.high / scratch.time);
  out.predicted_power = scratch.power;
  out.limiter = name(scratch.limiter);
  out.provenance = name(scratch.provenance);
}

}  // namespace

ClockMode clock_of(const Measurement& row, const std::optional<ClockMode>& asked) {
  return asked.value_or(row.what.clock);
}

KernelSet kernels_of(const StackChoice& stack) {
  const auto load = [](const std::string& name) -> const Stack& { return machines().stack(name); };
  return choose_stack(stack, load).kernels();
}

namespace {

/// By the kernels that rows of vLLM's experts name. FlashInfer's of one scale were timed as they are before anything has tuned
/// them (collector/vllm/collect_moe.py calls no tuner); `vllm_fused_moe` is Triton's, of any type.
std::string vllm_of(const Measurement& row) {
  if (row.kernel.rfind("modeloptfp8moe_flashinfer_cutlass", 0) == 0) return "vllm-untuned";
  const bool triton = row.kernel == "vllm_fused_moe" || row.kernel.find("triton") != std::string::npos;
  return triton ? "vllm-triton" : "vllm";
}

/// SGLang's published rows are of Triton's attention where tensor units take mma.sync and copies tensor maps, and
/// where there is tensor memory but no kernel for heads of 192. (collector/sglang/collect_attn.py,
/// run_attention_torch(): FlashAttention-3 below, trtllm_mha on others.) Rows may name their kernel.
bool by_triton(const Measurement& row, const std::string& gpu) {
  if (!row.kernel.empty()) return row.kernel == "triton";
  if (gpu.empty() || looks_like_path(gpu)) return false;
  const StreamingMultiprocessor sm = load_gpu(gpu).sm;
  if (sm.matrix_unit == MatrixUnit::mma_sync) return sm.async_copy == AsyncCopy::tma;
  constexpr std::int64_t kWithoutKernel = 192;
  const auto* prompt = std::get_if<AttentionPrefill>(&row.what.op);
  const auto* decode = std::get_if<AttentionDecode>(&row.what.op);
  const std::int64_t width = prompt != nullptr ? prompt->qk_dim : decode != nullptr ? decode->qk_dim : 0;
  return sm.matrix_unit == MatrixUnit::tcgen05 && width == kWithoutKernel;
}

/// SGLang's published rows are of FlashAttention-3 on 8.x too, where a server by itself takes FlashInfer.
bool by_third_on_mma(const Measurement& row, const std::string& gpu) {
  if (!row.kernel.empty() && row.kernel != "flash_attention") return false;
  if (gpu.empty() || looks_like_path(gpu)) return false;
  const StreamingMultiprocessor sm = load_gpu(gpu).sm;
  return sm.matrix_unit == MatrixUnit::mma_sync && sm.async_copy == AsyncCopy::cp_async;
}

/// scaled_dot_product_attention picks cuDNN's attention on Hopper where nothing else is asked for (PyTorch 2.11,
/// aten/src/ATen/native/transformers/cuda/sdp_utils.cpp).
bool is_of_pytorch(const Measurement& row) {
  const bool sdpa = row.origin.stack.rfind("torch", 0) == 0 && row.kernel == "sdpa";
  return sdpa || row.origin.stack.rfind("pytorch", 0) == 0;
}

/// Operators that SGLang runs by other kernels than TensorRT-LLM does.
bool is_servers_own(const Op& op) {
  return std::holds_alternative<AttentionPrefill>(op) || std::holds_alternative<AttentionDecode>(op) ||
         std::holds_alternative<MlaDecode>(op) || std::holds_alternative<Moe>(op);
}

/// Of attention that is neither SGLang's nor PyTorch's own choice.
StackChoice of_attention(StackChoice choice, const Measurement& row) {
  // which kernels vLLM takes goes by the card
  if (row.origin.stack.rfind("vllm", 0) == 0 && choice.name == "trt-llm") choice.name = "vllm";
  if (row.origin.stack.rfind("vllm", 0) == 0) return choice;
  for (const char* stack : {"torch", "flash-attention", "infersim"}) {
    if (row.origin.stack.rfind(stack, 0) == 0) choice.attention = "flash_attention";
  }
  // kernel_benchmark/flashinfer_mha_decode.py; its prompts are fa3_mha_prefill.py's
  const bool decodes = op_name(row.what.op) == "attention_decode";
  if (decodes && row.origin.stack.rfind("infersim", 0) == 0) choice.attention = "flashinfer";
  return choice;
}

/// Norms, gated units, rotations, gathers, the place of a row's largest value: whose kernels, the row says.
bool is_by_rows(const Op& op) {
  return std::holds_alternative<Rowwise>(op) || std::holds_alternative<Rope>(op) ||
         std::holds_alternative<Embedding>(op);
}
StackChoice of_rows(StackChoice choice, const Measurement& row) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kRun{
      {{"flashinfer", "sglang"}, {"vllm", "vllm-custom-ops"}, {"vidur", "vllm-2023"}}};
  for (const auto& [library, stack] : kRun) {
    if (row.origin.stack.rfind(library, 0) == 0) choice.name = stack;
  }
  return choice;
}

}  // namespace

StackChoice stack_of(StackChoice choice, const Measurement& row, const std::string& gpu) {
  if (!choice.attention.empty()) return choice;
  if (row.origin.stack.rfind("sglang", 0) == 0 && choice.name == "trt-llm" && is_servers_own(row.what.op)) {
    const bool attention = op_name(row.what.op) == "attention_prefill" || op_name(row.what.op) == "attention_decode";
    choice.name = attention && by_triton(row, gpu) ? "sglang-triton" : "sglang";
    if (attention && by_third_on_mma(row, gpu)) choice.attention = "flash_attention_3_named";
    return choice;
  }
  // serving stacks have PyTorch's reduction and gather as they are
  const bool of_torch = row.kernel == "argmax" || row.kernel == "embedding";
  if (is_by_rows(row.what.op) && choice.name == "trt-llm" && (of_torch || !is_of_pytorch(row))) {
    return of_rows(std::move(choice), row);
  }
  if (is_of_pytorch(row) && choice.name == "trt-llm") {
    // rows that were told another of its kernels; torchtitan's attention is PyTorch's FlashAttention-2
    const bool step = std::holds_alternative<AttentionDecode>(row.what.op);
    if (row.kernel == "efficient") choice.name = "hf-sdpa-efficient";
    else choice.name = row.kernel == "flash" && !step ? "torchtitan" : "hf-sdpa";
    return choice;
  }
  if (row.origin.stack == "vidur" && std::holds_alternative<Gemm>(row.what.op) && choice.name == "trt-llm") {
    choice.name = "vllm-2023";  // PyTorch 2.1's cuBLAS
    return choice;
  }
  if (op_name(row.what.op) == "all_reduce" && choice.name == "trt-llm") {
    for (const char* stack : {"vllm", "sglang"}) {
      if (row.origin.stack.rfind(stack, 0) == 0) choice.name = stack;
    }
    if (row.origin.stack.find("nccl") != std::string::npos) choice.name = "nccl";
    return choice;
  }
  if (std::holds_alternative<Recurrence>(row.what.op) && choice.name == "trt-llm") {
    if (row.kernel.find("flashinfer") != std::string::npos) choice.name = "vllm";
    return choice;
  }
  const bool serves_alike =
      std::holds_alternative<MlaDecode>(row.what.op) || std::holds_alternative<GemmDynamic>(row.what.op);
  if (serves_alike && choice.name == "trt-llm") {
    if (row.origin.stack.rfind("vllm", 0) == 0) choice.name = "vllm";
    return choice;
  }
  if (std::holds_alternative<Moe>(row.what.op) && choice.name == "trt-llm") {
    if (row.origin.stack.rfind("vllm", 0) == 0) choice.name = vllm_of(row);
    return choice;
  }
  const bool deepgemm = row.origin.stack.rfind("infersim", 0) == 0 || row.origin.stack.rfind("deepgemm", 0) == 0;
  if (std::holds_alternative<GroupedGemm>(row.what.op) && choice.name == "trt-llm") {
    if (deepgemm) choice.name = "deepgemm";
    return choice;
  }
  if (std::holds_alternative<ExpertExchange>(row.what.op) && choice.name == "trt-llm") {
    for (const char* stack : {"vllm", "sglang"}) {
      if (row.origin.stack.rfind(stack, 0) == 0) choice.name = stack;
    }
    return choice;
  }
  if (op_name(row.what.op) != "attention_prefill" && op_name(row.what.op) != "attention_decode") return choice;
  return of_attention(std::move(choice), row);
}

Op as_called(const Measurement& row) {
  Op op = row.what.op;
  // SGLang finds a scale for each token (sgl_per_token_quant_fp8(), collector/sglang/collect_gemm.py)
  auto* const rounds = std::get_if<GemmDynamic>(&op);
  if (rounds != nullptr && rounds->block == 0 && row.origin.stack.rfind("sglang", 0) == 0) rounds->block = 1;
  auto* const experts = std::get_if<Moe>(&op);
  if (experts == nullptr) return op;
  if (row.kernel == "vllm_fused_moe") experts->routed = 1;
  if (experts->alpha_percent == 0) return op;
  if (row.origin.stack == "trtllm-1.0.0") experts->leftover = 1;
  if (row.origin.stack == "vllm-0.14.0") experts->leftover = 2;
  return op;
}

Seconds predict_as_measured(const Measurement& row, const Machine& machine, Predictor& predictor,
                            OpPrediction& scratch) {
  const Protocol& protocol = row.origin.protocol;
  if (rounds_heads(row)) return predict_heads(row, machine, predictor, scratch);
  if (protocol.known) return predict_as_timed(as_called(row), protocol, machine, predictor, scratch);
  const std::string plan = row.kernels == KernelSet::own ? row.plan : "";  // the library's are no plans of ours
  const auto gemm_plan = parse_gemm_plan(plan);
  const auto attention_plan = parse_attention_plan(plan);
  predictor.predict(as_called(row), machine, scratch,
                    {.warm = row.warm(),
                     .read_through = row.what.cache == CacheState::read_through,
                     .gemm_plan = gemm_plan ? &*gemm_plan : nullptr,
                     .attention_plan = attention_plan ? &*attention_plan : nullptr});
  leave_out_gaps(row.what.op, protocol, machine, scratch);
  return scratch.time;
}

std::vector<Measurement> rows_of_gpu(std::vector<Measurement> measured, const std::string& gpu, long& left_out) {
  left_out = 0;
  if (gpu.empty() || looks_like_path(gpu)) return measured;
  const std::string own = load_gpu(gpu).name;
  std::map<std::string, bool> is_ours{{"", true}};
  std::vector<Measurement> kept;
  for (Measurement& row : measured) {
    auto known = is_ours.find(row.origin.gpu);
    if (known == is_ours.end()) {
      bool same = false;
      try {
        same = load_gpu(row.origin.gpu).name == own;
      } catch (const BadInput&) {
        same = false;  // a card that we have no descriptor of is another card
      }
      known = is_ours.emplace(row.origin.gpu, same).first;
    }
    if (known->second) {
      kept.push_back(std::move(row));
    } else {
      ++left_out;
    }
  }
  return kept;
}

Priced price(const std::vector<Measurement>& measured, const PricingOptions& options) {
  RowMachines machines(options);
  std::vector<Machine> machine_of;
  machine_of.reserve(measured.size());
  for (const Measurement& row : measured) machine_of.push_back(machines.of(row));
  Priced result;
  result.rows.resize(measured.size());
  in_parts(measured.size(), std::max<std::size_t>(options.threads, 1), [&](std::size_t first, std::size_t last) {
    const auto scratch = std::make_unique<OpPrediction>();  // large: not on a thread's stack
    Predictor predictor;
    for (std::size_t i = first; i < last; ++i) {
      price_row(measured[i], machine_of[i], predictor, *scratch, result.rows[i]);
    }
  });
  result.assumptions = machines.assumptions();
  return result;
}

}  // namespace plumbline
