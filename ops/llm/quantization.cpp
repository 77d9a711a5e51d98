// How the published weights are stored: quantization_config inside the file, or hf_quant_config.json beside it.
#include <algorithm>
#include <set>

#include "arch/files.hpp"
#include "ops/llm/parts.hpp"

namespace plumbline {
namespace {

/// Which parts of the layers an exclusion list leaves in 16 bits.
struct Excluded {
  bool attention = false, dense = false, experts = false;
};

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// The number after "layers." or -1.
int layer_index(const std::string& module) {
  const auto at = module.find("layers.");
  if (at == std::string::npos) return -1;
  int index = -1;
  for (std::size_t i = at + 7; i < module.size() && module[i] >= '0' && module[i] <= '9' && index < 100000; ++i) {
    index = (index < 0 ? 0 : index * 10) + (module[i] - '0');
  }
  return index;
}

/// A part counts as excluded when a pattern without a layer number, or plain names of at least half the layers, name
/// it.
class PartSeen {
 public:
  void see(const std::string& module) {
    const int index = layer_index(module);
    if (index < 0) all_ = true;
    else layers_.insert(index);
  }
  bool covers(std::size_t layers) const { return all_ || layers_.size() * 2 >= std::max<std::size_t>(layers, 1); }

 private:
  bool all_ = false;
  std::set<int> layers_;
};

Excluded read_excluded(const JsonValue& object, std::size_t layers) {
  PartSeen attention, dense, experts;
  for (const char* key : {"modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"}) {
    const auto list = object.find_list(key);
    if (!list) continue;
    for (const JsonValue& value : list->elements()) {
      const std::string module = value.as_string();
      if (contains(module, "vision") || contains(module, "visual") || contains(module, "norm")) continue;
      if (contains(module, "attn") || contains(module, "attention")) attention.see(module);
      const bool shared = contains(module, "shared_expert");
      if (contains(module, "experts") && !shared) experts.see(module);
      const bool projection =
          contains(module, "gate_proj") || contains(module, "down_proj") || contains(module, "_proj");
      if (contains(module, "mlp") && projection && !contains(module, "experts")) dense.see(module);
    }
  }
  return {attention.covers(layers), dense.covers(layers), experts.covers(layers)};
}

struct Formats {
  DType weight = DType::bf16, activation = DType::bf16;
};

DType float_or_int(const JsonValue& args, DType compute) {
  const auto bits_value = args.find("num_bits");
  const std::int64_t width = bits_value ? bits_value->as_integer() : 16;
  const bool is_float = args.find_string("type").value_or("int") == "float";
  if (width == 16) return compute;
  if (width == 8) return is_float ? DType::fp8 : DType::int8;
  if (width == 4) {
    const auto group = args.find("group_size");
    if (!is_float) return DType::int4;
    return group && group->as_integer() == 32 ? DType::mxfp4 : DType::nvfp4;
  }
  args.fail("expected 4, 8 or 16 bits, found " + std::to_string(width));
}

/// compressed-tensors and ModelOpt: the first group of `config_groups` with weights.
std::optional<Formats> from_groups(const LlmConfig& config, const JsonValue& object, DType compute) {
  const auto groups = object.find_object("config_groups");
  if (!groups) return std::nullopt;
  const auto names = groups->keys();
  if (names.size() > 1) config.assume("several quantization groups: the first one is taken for all");
  for (const std::string& name : names) {
    const auto group = groups->find_object(name);
    const auto weights = group ? group->find_object("weights") : std::nullopt;
    if (!weights) continue;
    Formats formats{float_or_int(*weights, compute), compute};
    if (const auto inputs = group->find_object("input_activations"))
      formats.activation = float_or_int(*inputs, compute);
    if (const auto size = weights->find("group_size");
        formats.weight == DType::int4 && size && size->as_integer() != 128) {
      config.assume("4-bit groups of " + size->dump() + ": stored as groups of 128");
    }
    return formats;
  }
  return std::nullopt;
}

/// ModelOpt's quant_algo.
Formats from_algorithm(const LlmConfig& config, const JsonValue& value, DType compute) {
  const std::string algo = value.as_string();
  if (algo == "FP8" || algo == "FP8_PER_CHANNEL_PER_TOKEN" || algo == "FP8_BLOCK_SCALES")
    return {DType::fp8, DType::fp8};
  if (algo == "FP8_PB_WO") return {DType::fp8, DType::fp8};
  if (algo == "NVFP4") return {DType::nvfp4, DType::nvfp4};
  if (algo == "NVFP4_AWQ") return {DType::nvfp4, DType::nvfp4};
  if (algo == "MXFP4") return {DType::mxfp4, compute};
  if (algo == "W4A8_AWQ" || algo == "W4A8_MXFP4_FP8")
    return {algo == "W4A8_AWQ" ? DType::int4 : DType::mxfp4, DType::fp8};
  if (algo == "W4A16" || algo == "W4A16_AWQ" || algo == "INT4_AWQ" || algo == "W4A16_GPTQ")
    return {DType::int4, compute};
  if (algo == "INT8_SQ" || algo == "W8A8_SQ_PER_CHANNEL") return {DType::int8, DType::int8};
  if (algo == "W8A16") return {DType::int8, compute};
  if (algo == "MIXED_PRECISION") {
    config.assume("quant_algo MIXED_PRECISION: taken as FP8 throughout");
    return {DType::fp8, DType::fp8};
  }
  value.fail("quant_algo '" + algo + "' is not understood" +
             did_you_mean(algo, {"FP8", "NVFP4", "MXFP4", "W4A16", "W4A8_AWQ", "INT4_AWQ", "INT8_SQ", "W8A16"}));
}

Formats from_bits(const JsonValue& object, DType compute) {
  const auto bits_value = object.find("bits");
  const std::int64_t width = bits_value ? bits_value->as_integer() : 4;
  if (width == 4) return {DType::int4, compute};
  if (width == 8) return {DType::int8, compute};
  object.fail("expected 4 or 8 'bits', found " + std::to_string(width));
}

/// Scales of 128 x 128 of the weights and of 128 values of a row (DeepSeek-V3): `weight_block_size` of files of method fp8,
/// `block_structure` of compressed-tensors, ModelOpt's FP8_BLOCK_SCALES and FP8_PB_WO.
std::int64_t scale_block(const LlmConfig& config, const JsonValue& object, const Formats& formats) {
  if (formats.weight != DType::fp8 || formats.activation != DType::fp8) return 0;
  const std::string algo = object.find_string("quant_algo").value_or("");
  if (algo == "FP8_BLOCK_SCALES" || algo == "FP8_PB_WO") return 128;
  std::optional<JsonValue> size = object.find_list("weight_block_size");
  if (const auto groups = object.find_object("config_groups"); groups && !size) {
    for (const std::string& name : groups->keys()) {
      const auto group = groups->find_object(name);
      const auto weights = group ? group->find_object("weights") : std::nullopt;
      if (weights && !size) size = weights->find_list("block_structure");
    }
  }
  if (!size) return 0;
  const std::vector<JsonValue> sides = size->elements();
  const auto is_128 = [](const JsonValue& side) { return side.as_integer() == 128; };
  if (sides.size() == 2 && std::all_of(sides.begin(), sides.end(), is_128)) return 128;
  config.assume("scales of blocks of " + size->dump().substr(0, 60) + ": costed as one scale a matrix");
  return 0;
}

bool set_flag(const JsonValue& object, const char* key) { return object.find_bool(key).value_or(false); }

Formats from_method(const LlmConfig& config, const JsonValue& object, const std::string& method, DType compute) {
  if (const auto algo = object.find("quant_algo")) return from_algorithm(config, *algo, compute);
  if (const auto formats = from_groups(config, object, compute)) return *formats;
  if (method == "fp8" || method == "fbgemm_fp8") return {DType::fp8, DType::fp8};
  if (method == "mxfp4") return {DType::mxfp4, compute};
  if (method == "gptq" || method == "awq" || method == "auto-round" || method == "intel/auto-round") {
    return from_bits(object, compute);
  }
  if (method == "bitsandbytes") {
    if (set_flag(object, "load_in_4bit")) return {DType::int4, compute};
    if (set_flag(object, "load_in_8bit")) return {DType::int8, DType::int8};
  }
  if (method == "bitnet") {
    config.assume("BitNet's ternary weights are stored in 2 bits: costed as 4-bit weights, which are twice as large");
    return {DType::int4, compute};
  }
  if (method == "eetq") return {DType::int8, compute};
  if (method == "quanto" || method == "torchao") {
    const std::string key = method == "quanto" ? "weights" : "quant_type", words = object.find_string(key).value_or("");
    const bool both = words.find("dynamic_activation") != std::string::npos;
    const auto says = [&](const char* word) { return words.find(word) != std::string::npos; };
    if (says("int4")) return {DType::int4, compute};
    if (says("int8")) return {DType::int8, both ? DType::int8 : compute};
    if (says("float8")) return {DType::fp8, both ? DType::fp8 : compute};
  }
  const std::vector<std::string> known{"fp8",      "mxfp4",        "gptq",   "awq",  "compressed-tensors",
                                       "modelopt", "bitsandbytes", "bitnet", "eetq", "quanto",
                                       "torchao"};
  const auto named = object.find("quant_method");
  (named ? *named : object).fail("quantization '" + method + "' is not understood" + did_you_mean(method, known));
}

DType kv_format(const JsonValue& object, DType fallback) {
  for (const char* key : {"kv_cache_quant_algo", "kv_cache_scheme"}) {
    const auto value = object.find(key);
    if (!value) continue;
    if (value->is_object()) return float_or_int(*value, fallback);
    const std::string algo = value->as_string();
    if (algo == "FP8") return DType::fp8;
    if (algo == "INT8") return DType::int8;
    if (algo == "NVFP4" || algo == "NVFP4_AFFINE") return DType::nvfp4;
    if (algo != "NONE" && algo != "none" && algo != "auto") {
      value->fail("KV cache format '" + algo + "' is not understood" + did_you_mean(algo, {"FP8", "INT8", "NVFP4"}));
    }
  }
  return fallback;
}

void apply(const LlmConfig& config, const JsonValue& object, const std::string& method, DType compute, Llm& llm) {
  Quantization& q = llm.quantization;
  const Formats formats = from_method(config, object, method, compute);
  const Excluded left = read_excluded(object, llm.main().order.size());
  bool experts = false;
  for (const LayerSpec& kind : llm.main().kinds) experts = experts || (kind.ffn && kind.ffn->is_moe());
  q.activation = formats.activation;
  q.block = scale_block(config, object, formats);
  q.experts = left.experts ? compute : formats.weight;
  // One type stands for attention and dense FFN: with experts that is attention, without it is mostly the FFN.
  const bool linear_left = method == "mxfp4" || (experts ? left.attention : left.dense);
  q.linear = linear_left ? compute : formats.weight;
  if (experts && left.attention)
    config.assume("quantization leaves attention (and, taken alike, dense FFN) in 16 bits");
  if (!experts && left.attention && !left.dense) config.assume("attention is left in 16 bits; costed like the FFN");
  q.kv = kv_format(object, q.kv);
  q.method = method;
}

}  // namespace

void read_quantization(const LlmConfig& config, const std::optional<JsonValue>& quant, Llm& llm) {
  DType compute = llm.dtype;
  if (compute != DType::bf16 && compute != DType::fp16) {
    config.assume("the file's " + std::string(name(compute)) + " weights are served in bf16");
    compute = DType::bf16;
  }
  Quantization& q = llm.quantization;
  q.linear = q.experts = q.activation = q.kv = compute;
  if (const auto block = config.find_anywhere({"quantization_config"})) {
    if (!block->is_object()) block->fail("expected an object, found " + block->dump().substr(0, 60));
    apply(config, *block, block->find_string("quant_method").value_or("modelopt"), compute, llm);
  }
  if (quant) {
    const auto block = quant->find_object("quantization");
    if (!block) quant->fail("expected an object 'quantization'");
    if (const auto algo = block->find("quant_algo"); algo && q.method == "none") {
      apply(config, *block, "modelopt", compute, llm);
    }
    q.kv = kv_format(*block, q.kv);
  }
  if (config.text_or({"expert_dtype"}, "") == "fp4") {
    q.experts = DType::mxfp4;
    config.assume("expert_dtype fp4: taken as mxfp4 (blocks of 32)");
  }
}

}  // namespace plumbline
