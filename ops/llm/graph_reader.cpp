#include "ops/llm/graph_reader.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/printable.hpp"
#include "ops/as_double.hpp"
#include "ops/block/read.hpp"
#include "ops/config/config.hpp"
#include "ops/llm/ffn_words.hpp"
#include "ops/llm/layer_kinds.hpp"
#include "ops/llm/params.hpp"
#include "ops/llm/parts.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kLargest = LlmConfig::kLargestDim;
constexpr double kMostParams = 1e18;
constexpr int kDeepestOrder = 8;

std::vector<std::string> sentences(const JsonValue& root, std::string_view key) {
  std::vector<std::string> all;
  const auto list = root.find_list(key);
  if (!list) return all;
  if (list->size() > 1000) list->fail("expected at most 1000 sentences");
  for (const JsonValue& each : list->elements()) all.push_back(each.as_string());
  return all;
}

/// Reads one file, with what its numbers may name.
class GraphReader {
 public:
  explicit GraphReader(const JsonValue& root, bool of_family = false)
      : root_(root), library_(root.find_object("blocks")), of_family_(of_family) {}

  Llm all() {
    root_.refuse_unknown_keys({"schema",
                               "name",
                               "about",
                               "model_type",
                               "dtype",
                               "quantization",
                               "parameters",
                               "hidden",
                               "vocab",
                               "max_context",
                               "tied_embeddings",
                               "head",
                               "embedding_params",
                               "head_extra_params",
                               "mtp_params",
                               "stacks",
                               "blocks",
                               "warnings",
                               "assumptions",
                               "tower_params",
                               "unfilled_params",
                               "guessed",
                               "ignored_keys"});
    const auto parameters = root_.find("parameters");
    const JsonValue width = root_.at("hidden");
    if (width.is_number()) scope_.add("hidden", width.as_number(), width);  // parameters may name it
    if (parameters && parameters->is_object() && parameters->has("hidden")) {
      parameters->fail("'hidden' is the file's own, not a parameter");
    }
    if (parameters) scope_.add_all(*parameters, {});
    Llm llm;
    head_of_file(llm);
    const JsonValue stacks = root_.at("stacks");
    if (!stacks.is_array() || stacks.size() == 0 || stacks.size() > 16)
      stacks.fail("expected a list of 1 to 16 stacks");
    for (const JsonValue& stack : stacks.elements()) {
      llm.stacks.push_back(stack_of(stack, llm));
      if (!of_family_) refuse_idle(stack, llm);
    }
    if (const auto extra = root_.find("head_extra_params")) llm.head_params = params(*extra);
    if (const auto embedding = root_.find("embedding_params")) llm.embedding_params = params(*embedding);
    if (const auto mtp = root_.find("mtp_params")) llm.mtp_params = params(*mtp);
    if (!of_family_) finish_totals(llm);
    if (const auto towers = root_.find("tower_params")) llm.tower_params = params(*towers);
    if (const auto room = root_.find("unfilled_params")) llm.unfilled_params = params(*room);
    llm.guessed = flag(root_, "guessed", false);
    llm.ignored_keys = sentences(root_, "ignored_keys");
    llm.warnings = sentences(root_, "warnings");
    llm.assumptions = sentences(root_, "assumptions");
    return llm;
  }

 private:
  /// Behind the first stack an encoder runs before a decoder, and towers for pictures are counted; a second decoder would be
  /// in weights and cache and in no step.
  static void refuse_idle(const JsonValue& at, const Llm& llm) {
    const StackSpec::Role role = llm.stacks.back().role;
    const bool beside = role == StackSpec::Role::encoder || role == StackSpec::Role::vision;
    if (llm.stacks.size() == 1 || beside) return;
    at.fail("expected an encoder or a vision stack behind the first one: a stack of role " +
            std::string(word_of(role)) + " would run in no step here; its layers go into the order of the first");
  }

  std::int64_t whole(const JsonValue& object, std::string_view key, std::int64_t fallback, std::int64_t low = 0) const {
    const auto value = object.find(key);
    return value ? scope_.whole(*value, low, kLargest) : fallback;
  }
  bool flag(const JsonValue& object, std::string_view key, bool fallback) const {
    const auto value = object.find(key);
    return value ? scope_.flag(*value) : fallback;
  }
  double params(const JsonValue& value) const {
    const double number = scope_.number(value);
    if (number < 0 || number > kMostParams) value.fail("expected a number of parameters from 0");
    return number;
  }
  static DType type(const JsonValue& object, std::string_view key, DType fallback) {
    const auto value = object.find_string(key);
    if (!value) return fallback;
    const auto type = parse_dtype(*value);
    if (!type) object.at(key).fail("expected a data type, found '" + *value + "'");
    return *type;
  }

  void head_of_file(Llm& llm) {
    llm.name = printable(root_.find_string("name").value_or(""));
    llm.model_type = root_.find_string("model_type").value_or("graph");
    llm.hidden = scope_.whole(root_.at("hidden"), 1, kLargest);
    if (!scope_.has("hidden")) scope_.add("hidden", d(llm.hidden), root_.at("hidden"));
    llm.vocab = whole(root_, "vocab", 0);
    llm.max_context = whole(root_, "max_context", 0);
    llm.has_head = flag(root_, "head", llm.vocab > 0);
    llm.tied_embeddings = flag(root_, "tied_embeddings", false);
    llm.dtype = type(root_, "dtype", DType::bf16);
    if (const auto q = root_.find_object("quantization")) {
      q->refuse_unknown_keys({"linear", "experts", "activation", "kv", "block", "method"});
      llm.quantization.linear = type(*q, "linear", DType::bf16);
      llm.quantization.experts = type(*q, "experts", llm.quantization.linear);
      llm.quantization.activation = type(*q, "activation", DType::bf16);
      llm.quantization.kv = type(*q, "kv", DType::bf16);
      llm.quantization.block = whole(*q, "block", 0);
      if (llm.quantization.block != 0 && llm.quantization.block != 128) q->at("block").fail("expected 0 or 128");
      llm.quantization.method = q->find_string("method").value_or("none");
    }
  }

  static StackSpec::Role role(const JsonValue& object) {
    const std::string word = object.find_string("role").value_or("decoder");
    for (const StackSpec::Role role :
         {StackSpec::Role::decoder, StackSpec::Role::encoder, StackSpec::Role::vision, StackSpec::Role::diffusion}) {
      if (word_of(role) == word) return role;
    }
    object.at("role").fail("expected decoder, encoder, vision or diffusion, found '" + word + "'");
  }

  StackSpec stack_of(const JsonValue& object, const Llm& llm) {
    object.refuse_unknown_keys({"role", "hidden", "layers", "order", "other_params", "passes", "shared_weights",
                                "text_tokens", "fixed_tokens", "cross_tokens", "about"});
    StackSpec stack;
    stack.role = role(object);
    stack.hidden = whole(object, "hidden", llm.hidden, 1);
    stack.passes = d(whole(object, "passes", 1, 1));
    if (const auto passes = object.find("passes")) stack.passes = scope_.number(*passes);
    stack.shared_weights = flag(object, "shared_weights", false);
    stack.text_tokens = whole(object, "text_tokens", 0);
    stack.fixed_tokens = whole(object, "fixed_tokens", 0);
    stack.cross_tokens = whole(object, "cross_tokens", 0);
    layers_ = object.at("layers");
    if (!layers_->is_object() || layers_->size() == 0) layers_->fail("expected layers by name");
    if (layers_->size() > 10'000) layers_->fail("expected at most 10000 kinds of layers");
    kinds_.clear();
    order(object.at("order"), stack, 0);
    if (stack.order.empty()) object.at("order").fail("expected layers");
    const NormKind norm = stack.kinds.front().norm;
    stack.other_params = d(stack.hidden) * (norm == NormKind::rms ? 1 : 2);  // its last norm
    if (const auto other = object.find("other_params")) stack.other_params = params(*other);
    return stack;
  }

  /// "full", {"layer": "full", "repeat": 3}, {"repeat": 12, "of": [...]}, or a list of them.
  void order(const JsonValue& value, StackSpec& stack, int depth) {
    if (depth > kDeepestOrder) value.fail("expected repeats at most " + std::to_string(kDeepestOrder) + " deep");
    if (value.is_array()) {
      if (value.size() == 0) value.fail("expected layers");
      for (const JsonValue& each : value.elements()) order(each, stack, depth + 1);
      return;
    }
    if (value.is_string()) return append(value, value.as_string(), 1, stack);
    value.refuse_unknown_keys({"layer", "repeat", "of"});
    const auto of = value.find("of");
    const std::int64_t repeat = whole(value, "repeat", 1, of_family_ ? 0 : 1);
    if (repeat == 0) return;
    if (repeat > LlmConfig::kMostLayers) value.at("repeat").fail("expected at most 10000 layers");
    if (!of) return append(value, value.at("layer").as_string(), repeat, stack);
    for (std::int64_t i = 0; i < repeat; ++i) order(*of, stack, depth + 1);
  }

  void append(const JsonValue& at, const std::string& name, std::int64_t repeat, StackSpec& stack) {
    auto kind = kinds_.find(name);
    if (kind == kinds_.end()) {
      const auto layer = layers_->find(name);
      if (!layer) at.fail("no layer is called '" + name.substr(0, 64) + "'" + did_you_mean(name, layers_->keys()));
      stack.kinds.push_back(layer_of(*layer, name));
      count_layer(stack.kinds.back(), stack.hidden);
      if (stack.kinds.back().params > kMostParams) layer->fail("more than 10^18 parameters");
      kind = kinds_.emplace(name, static_cast<int>(stack.kinds.size()) - 1).first;
    }
    if (stack.order.size() + static_cast<std::size_t>(repeat) > static_cast<std::size_t>(LlmConfig::kMostLayers)) {
      at.fail("expected at most 10000 layers");
    }
    stack.order.insert(stack.order.end(), static_cast<std::size_t>(repeat), kind->second);
  }

  LayerSpec layer_of(const JsonValue& object, const std::string& name) {
    LayerSpec layer;
    if (object.is_object() && object.has("ops")) {
      layer.written_out = true;
      layer.norms = 0;
      layer.mixer = library_.read(object, scope_, name);
      return layer;
    }
    object.refuse_unknown_keys({"mixer", "cross", "ffn", "beside", "norm", "norms", "norm_vectors", "parallel", "drops",
                                "keeps_all", "drops_scores", "drops_inner", "modulation_width", "double_stream",
                                "second_stream_ends", "about"});
    layer.double_stream = flag(object, "double_stream", false);
    layer.second_stream_ends = flag(object, "second_stream_ends", false);
    if (const auto part = object.find("mixer")) {
      layer.mixer = mixer_of(*part, name, layer.double_stream || of_family_);
    }
    if (const auto part = object.find("cross")) layer.cross = mixer_of(*part, name, of_family_);
    if (const auto part = object.find("ffn")) feed(*part, name, layer);
    if (const auto beside = object.find_object("beside")) read_beside_of(*beside, layer.beside);
    const int parts = (layer.mixer ? 1 : 0) + (layer.cross ? 1 : 0) + (layer.ffn || layer.feed ? 1 : 0);
    if (parts == 0) object.fail("expected a mixer, an ffn, or ops");
    const std::string norm = object.find_string("norm").value_or("rms");
    if (norm != "rms" && norm != "layer") object.at("norm").fail("expected rms or layer");
    layer.norm = norm == "rms" ? NormKind::rms : NormKind::layer;
    layer.norms = static_cast<int>(std::min<std::int64_t>(whole(object, "norms", parts), 64));
    layer.norm_vectors =
        static_cast<int>(std::min<std::int64_t>(whole(object, "norm_vectors", norm == "rms" ? 1 : 2), 2));
    layer.parallel_block = flag(object, "parallel", false);
    layer.drops = flag(object, "drops", false);
    layer.keeps_all = flag(object, "keeps_all", false);
    layer.drops_scores = flag(object, "drops_scores", false);
    layer.drops_inner = flag(object, "drops_inner", false);
    if (layer.parallel_block && !layer.mixer) object.at("parallel").fail("expected a mixer beside the ffn");
    layer.modulation_width = whole(object, "modulation_width", 0);
    if (layer.double_stream && layer.mixer.as<AttentionSpec>() == nullptr) {
      object.at("double_stream").fail("expected a mixer that is attention of the library's");
    }
    return layer;
  }

  /// `own`: the library's, where a block is written out as well.
  LayerMixer mixer_of(const JsonValue& part, const std::string& name, bool own) {
    if (own && fresh_mixer(part.find_string("use").value_or(""))) return library_.library_mixer(part, scope_);
    return library_.read(part, scope_, name);
  }

  void read_beside_of(const JsonValue& object, BesideSpec& beside) {
    object.refuse_unknown_keys({"matrices", "vectors", "streams"});
    beside.vectors = whole(object, "vectors", 0);
    beside.streams = whole(object, "streams", 0);
    const auto list = object.find_list("matrices");
    if (!list) return;
    if (list->size() > 64) list->fail("expected at most 64 matrices");
    for (const JsonValue& each : list->elements()) {
      each.refuse_unknown_keys({"in", "out"});
      beside.matrices.push_back({whole(each, "in", 0, 1), whole(each, "out", 0, 1)});
    }
  }

  /// One of the library's by its word, or a block.
  void feed(const JsonValue& object, const std::string& name, LayerSpec& layer) {
    const std::string word = object.is_object() ? object.find_string("use").value_or("") : "";
    const bool own = layer.double_stream && word == "swiglu_ffn";  // both streams have one
    if (!own && (std::find(kFfnWords.begin(), kFfnWords.end(), word) == kFfnWords.end() || library_.defines(word))) {
      layer.feed = library_.read(object, scope_, name);
      return;
    }
    FfnSpec ffn;
    ffn.gated = word != "mlp";
    std::vector<std::string> known{"use", "activation"};
    each_ffn_size(ffn, [&](const char* key, auto& member) {
      known.emplace_back(key);
      if constexpr (std::is_same_v<decltype(member), bool&>) member = flag(object, key, member);
      else member = whole(object, key, member);
    });
    for (const std::string& key : object.keys()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      object.fail("unknown size '" + key.substr(0, 64) + "'" + did_you_mean(key, known));
    }
    const std::string activation = object.find_string("activation").value_or("silu");
    const auto* at = std::find(kActivationWords.begin(), kActivationWords.end(), activation);
    if (at == kActivationWords.end()) object.at("activation").fail("expected silu, gelu, relu or relu2");
    ffn.activation = static_cast<Activation>(at - kActivationWords.begin());
    check_ffn(ffn, word, object);
    layer.ffn = ffn;
  }

  static void check_ffn(const FfnSpec& ffn, const std::string& word, const JsonValue& object) {
    if ((word == "moe") != ffn.is_moe()) object.fail("expected \"experts\" of a moe, and of nothing else");
    if (!ffn.is_moe() && ffn.width < 1) object.fail("expected its \"width\"");
    if (!ffn.is_moe()) return;
    if (ffn.expert_width < 1 || ffn.topk < 1) object.fail("expected \"expert_width\" and \"topk\" from 1");
    if (ffn.topk > ffn.experts + ffn.identities) object.at("topk").fail("expected at most its experts");
  }

  const JsonValue& root_;
  Scope scope_;
  BlockLibrary library_;
  bool of_family_;  ///< of data/families: layers may come 0 times, mixers are the library's, totals come later
  std::optional<JsonValue> layers_;
  std::map<std::string, int> kinds_;
};

}  // namespace

Llm read_family_graph(const JsonValue& root) { return GraphReader(root, true).all(); }

Llm read_graph(const JsonValue& root) {
  const std::string schema = root.at("schema").as_string();
  if (schema != kGraphSchema) {
    root.at("schema").fail("expected \"" + std::string(kGraphSchema) + "\", found '" + schema.substr(0, 64) + "'");
  }
  return GraphReader(root).all();
}

}  // namespace plumbline
