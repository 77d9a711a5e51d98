#include "ops/llm/llm.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/json_reader.hpp"
#include "arch/printable.hpp"
#include "ops/config/activation_names.hpp"
#include "ops/llm/family_graph.hpp"
#include "ops/llm/graph_reader.hpp"
#include "ops/llm/parts.hpp"
#include "ops/llm/published_size.hpp"
#include "ops/llm/tower_table.hpp"

namespace plumbline {
namespace {

std::string text_of(const JsonValue& object, std::string_view key) { return object.find_string(key).value_or(""); }

}  // namespace

std::string first_architecture(const JsonValue& object) {
  const auto list = object.find_list("architectures");
  return !list || list->size() == 0 ? "" : list->elements()[0].as_string();
}

namespace {

/// The language model inside a multimodal file.
JsonValue unwrapped(const JsonValue& root) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    if (const auto inner = root.find_object(key)) return *inner;
  }
  return root;
}

/// Of a tower, not of a quantization or a generation.
bool holds_sizes(const JsonValue& part) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "depth", "d_model", "embed_dim", "hidden_sizes", "depths",
                          "num_layers", "encoder_layers"}) {
    if (part.has(key)) return true;
  }
  return false;
}

void refuse_unread(const JsonValue& object) {
  const std::string type = text_of(object, "model_type");
  if (is_unread_type(type)) object.at("model_type").fail("models of type '" + type + "' are not understood");
}

/// A model around a text model that has further parts with sizes of their own, none of which any table knows: its text model
/// alone would be taken for the whole.
void refuse_unknown_around(const JsonValue& root, const JsonValue& inner) {
  if (inner.is_same_as(root) || first_architecture(root).ends_with("ForCausalLM")) return;
  const std::string type = text_of(root, "model_type");
  if (type.empty() || find_family(type) != nullptr || knows_towers_of(type)) return;
  for (const std::string& key : root.keys()) {
    const auto part = root.find(key);
    if (!key.ends_with("_config") || !part || !part->is_object() || part->size() == 0 || part->is_same_as(inner))
      continue;
    if (!holds_sizes(*part)) continue;
    root.at("model_type")
        .fail("models of type '" + printable(type.substr(0, 64)) + "' are not understood: their '" +
              printable(key.substr(0, 64)) + "' is in no table; give their text model as " +
              "a file of its own to read it alone");
  }
}

struct Choice {
  Family family;
  bool known = true;
  std::string type;
};

Choice choose_family(const JsonValue& root, const JsonValue& inner) {
  for (const char* key : {"_class_name", "model_type"}) {
    if (const std::string type = text_of(root, key); has_family_graph(type)) {
      return {Family{"table", Layout::table, 0, 0}, true, type};
    }
  }
  if (root.has("_class_name"))
    return {Family{"diffusion", Layout::diffusion, 0, 0}, true, text_of(root, "_class_name")};
  // Grok-2's file calls itself "git".
  if (text_of(inner, "model_type") == "git" && first_architecture(inner) == "Grok1ForCausalLM") {
    return {*find_family("grok-2"), true, "grok-2"};
  }
  refuse_unread(inner);
  refuse_unread(root);
  refuse_unknown_around(root, inner);
  for (const JsonValue* object : {&inner, &root}) {
    const std::string type = text_of(*object, "model_type");
    if (const Family* family = type.empty() ? nullptr : find_family(type)) return {*family, true, type};
  }
  for (const JsonValue* object : {&inner, &root}) {
    const std::string architecture = first_architecture(*object);
    if (architecture.empty()) continue;
    if (const Family* family = family_of_architecture(architecture)) {
      const std::string type = text_of(*object, "model_type");
      return {*family, true, type.empty() ? std::string(family->type) : type};
    }
  }
  if (inner.has("ssm_cfg")) return {*find_family("mamba"), true, "mamba"};
  // Keys that BERT's kin have and decoders have not.
  if (inner.has("type_vocab_size") && inner.has("layer_norm_eps") && !inner.has("num_key_value_heads")) {
    const Family& bert = *find_family("bert");
    return {Family{"unknown", Layout::bert, bert.flags, 0}, false, text_of(inner, "model_type")};
  }
  return {Family{"unknown", Layout::decoder, kTied, 0}, false, text_of(inner, "model_type")};
}

/// Class defaults of LlamaConfig, MistralConfig and Qwen2Config, for `text_config`s that leave the width out (LLaVA), and those of
/// Gemma3TextConfig that its files leave out.
const char* silent_dims(const Family& family) {
  if (family.type == "gemma3") {
    return R"({"vocab_size":262208,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256})";
  }
  if (family.type == "mistral") {
    return R"({"hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
               "intermediate_size":14336,"vocab_size":32000})";
  }
  if (family.type == "qwen2") {
    return R"({"hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,
               "intermediate_size":22016,"vocab_size":151936})";
  }
  return R"({"hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,
             "intermediate_size":11008,"vocab_size":32000})";
}

void build(const LlmConfig& config, Llm& llm) {
  switch (config.family().layout) {
    case Layout::table: build_family_graph(config, llm.model_type, llm); break;
    case Layout::decoder: build_decoder(config, llm); break;
    case Layout::mamba: build_mamba(config, llm); break;
    case Layout::zamba: build_zamba(config, llm); break;
    case Layout::nemotron_h: build_nemotron_h(config, llm); break;
    case Layout::bert: build_bert(config, llm); break;
    case Layout::t5: build_t5(config, llm); break;
    case Layout::seq2seq: build_seq2seq(config, llm); break;
    case Layout::vit: build_vit(config, llm); break;
    case Layout::diffusion: build_diffusion(config, llm); break;
  }
}

/// A message at the key's place; at the object's when the key holds what may not be printed.
[[noreturn]] void refuse_key(const LlmConfig& config, const std::string& key, const std::string& sentence) {
  const std::string shown = printable(key);
  if (shown == key) config.inner().at(key).fail(sentence);
  config.inner().fail("'" + shown + "': " + sentence);
}

/// Keys that could change the arithmetic and that nothing read: a refusal that names them. A file with more of them than
/// are named is none of a model.
void check_unknown_keys(const LlmConfig& config, const Choice& choice) {
  constexpr std::size_t kNamed = LlmConfig::kMostNamed;
  const std::vector<std::string> dimensions = config.unknown_keys(kNamed + 1);
  const std::vector<std::string> switches = config.unknown_switches(kNamed + 1);
  if (dimensions.size() > kNamed || switches.size() > kNamed) {
    config.inner().fail("more than " + std::to_string(kNamed) + " keys that are not known: is this a config.json?");
  }
  const std::string advice =
      "; take it out of the file if it changes no operator and no weight, else write the model as a graph "
      "(docs/graphs.md)";
  if (!dimensions.empty()) {
    const std::string known = "a key that looks like a dimension is not known";
    if (choice.known) refuse_key(config, dimensions.front(), known + advice);
    refuse_key(config, dimensions.front(),
               known + ", and model_type '" + choice.type + "' is neither" + did_you_mean(choice.type, family_names()));
  }
  if (!switches.empty()) refuse_key(config, switches.front(), "true, and not known" + advice);
  const std::vector<std::string> parts = config.unknown_parts(1);
  if (!parts.empty()) refuse_key(config, parts.front(), "may describe a part of a layer, and is not known" + advice);
}

/// Shares that training drops, by the names that classes of transformers have for them.
constexpr std::array<const char*, 10> kDropped{"resid_pdrop",     "embd_pdrop",        "attn_pdrop",
                                               "hidden_dropout",  "attention_dropout", "hidden_dropout_prob",
                                               "dropout",         "dropout_rate",      "attention_probs_dropout_prob",
                                               "residual_dropout"};

/// Whose classes drop nothing where the config says nothing (transformers 5.17).
constexpr std::array<std::string_view, 15> kKeepsAll{"gpt_neox",   "phi",       "phi-msft", "falcon",  "gptj",
                                                     "codegen",    "mpt",       "bloom",    "gpt_neo", "stablelm",
                                                     "starcoder2", "persimmon", "albert",   "cohere",  "nemotron"};

/// Where the config says some of them, and that each is 0.
bool keeps_all(const JsonValue& config, std::string_view type) {
  bool said = std::find(kKeepsAll.begin(), kKeepsAll.end(), type) != kKeepsAll.end();
  for (const char* key : kDropped) {
    const auto share = config.find(key);
    if (!share || !share->is_number()) continue;
    if (share->as_number() > 0) return false;
    said = true;
  }
  return said;
}

double share_of(const JsonValue& config, const char* key) {
  const auto share = config.find(key);
  return share && share->is_number() ? share->as_number() : 0;
}

/// Whose classes drop a tenth of attention's scores where the config says nothing (transformers 5.17).
constexpr std::array<std::string_view, 12> kDropsScores{"gpt2",          "bert",      "roberta",       "xlm-roberta",
                                                        "xlm_roberta",   "camembert", "electra",       "distilbert",
                                                        "megatron-bert", "ernie",     "data2vec-text", "gpt_bigcode"};

/// Attention has a share of its own: StarCoder2's layers drop a tenth of what they add, and of scores only what the config says.
bool drops_scores(const JsonValue& config, std::string_view type) {
  for (const char* key : {"attn_pdrop", "attention_dropout", "attention_probs_dropout_prob"}) {
    const auto share = config.find(key);
    if (share && share->is_number()) return share->as_number() > 0;
  }
  return std::find(kDropsScores.begin(), kDropsScores.end(), type) != kDropsScores.end();
}

/// Share of a head's columns that is rotated where a config does not say it: the class's of transformers.
double rotary_default(std::string_view type) {
  if (type == "gpt_neox" || type == "stablelm") return 0.25;
  for (const std::string_view half : {"phi", "nemotron", "glm", "glm4", "persimmon"}) {
    if (type == half) return 0.5;
  }
  return 1;
}

/// Share of a head's columns that is rotated, by the names that configs have for it; of `head` columns.
double rotary_share(const JsonValue& config, std::string_view type, double head) {
  double share = rotary_default(type);
  const auto read = [&share](const JsonValue& from) {
    for (const char* key : {"partial_rotary_factor", "rotary_pct"}) {
      const auto given = from.find(key);
      if (given && given->is_number()) share = given->as_number();
    }
  };
  if (const auto nested = config.find("rope_parameters"); nested && nested->is_object()) read(*nested);
  read(config);
  if (const auto columns = config.find("rotary_dim"); columns && columns->is_number() && head > 0) {
    share = columns->as_number() / head;
  }
  return share > 0 && share < 1 ? share : 1;
}

/// Of models whose layers transformers runs; of others no framework's operators are asked for.
std::string activation_of(const LlmConfig& config, const Llm& llm) {
  const Layout layout = config.family().layout;
  const bool asked =
      layout == Layout::decoder || layout == Layout::bert || layout == Layout::t5 || layout == Layout::seq2seq;
  return asked ? activation_name(config, llm.model_type) : std::string{};
}

Llm read_llm(const JsonValue& root, const JsonValue& inner, const Choice& choice,
             const std::optional<JsonValue>& quant) {
  const LlmConfig config(inner, root, choice.family);
  Llm llm;
  llm.model_type = choice.type;
  if (!choice.known) {
    const std::string sentence =
        "model_type '" + choice.type + "' is not known: read as " +
        (choice.family.layout == Layout::bert ? "BERT-like (LayerNorm, two matrices, learned positions)"
                                              : "Llama-like (RMSNorm, gated FFN, RoPE)");
    config.assume(sentence);
    llm.guessed = true;
    llm.warnings.push_back(printable(sentence) + "; the bands hold what such a guess has been wrong by");
  }
  build(config, llm);
  llm.activation = activation_of(config, llm);
  if (choice.family.layout != Layout::table) add_towers(root, config, llm);
  read_quantization(config, quant, llm);
  finish_totals(llm);
  for (StackSpec& stack : llm.stacks) {
    if (stack.role != StackSpec::Role::decoder && stack.role != StackSpec::Role::encoder) continue;
    for (LayerSpec& kind : stack.kinds) {
      kind.keeps_all = keeps_all(inner, choice.type);
      kind.drops_inner = choice.family.layout == Layout::seq2seq && share_of(inner, "activation_dropout") > 0;
    }
  }
  for (LayerSpec& kind : llm.stacks.front().kinds) {
    kind.keeps_all = keeps_all(inner, choice.type);
    kind.drops_scores = kind.drops ? !kind.keeps_all : drops_scores(inner, choice.type);
    const auto* attention = kind.mixer.as<AttentionSpec>();
    kind.rotary = rotary_share(inner, choice.type, attention ? static_cast<double>(attention->qk_dim) : 0);
  }
  check_unknown_keys(config, choice);
  llm.assumptions = config.assumptions();
  if (root.find_string("model_type").value_or("").ends_with("_thinker")) {
    llm.assumptions.push_back("an omni model: the thinker alone is read, the talker and what makes sound are left out");
  }
  if (const std::string filled = config.filled_text(); !filled.empty()) {
    llm.assumptions.push_back("keys that the config leaves out, as the class of '" + printable(choice.type) +
                              "' in transformers has them: " + filled);
  }
  if (const std::string filled = config.filled_main_text(); !filled.empty() && inner.is_same_as(root)) {
    llm.warnings.push_back("the file does not say its main sizes: " + filled + " are the defaults of the class of '" +
                           printable(choice.type) + "' in transformers");
  }
  llm.ignored_keys = config.ignored_keys();
  if (!llm.ignored_keys.empty()) {
    std::string names;
    for (const std::string& key : llm.ignored_keys) names += (names.empty() ? "" : ", ") + key;
    llm.assumptions.push_back("keys of the config that nothing reads: " + names);
  }
  return llm;
}

}  // namespace

Llm parse_llm(const std::string& config_json, const std::string& quant_json, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(config_json, place);
  const JsonValue file = document.root();
  if (!file.is_object()) file.fail("expected an object with the keys of a config.json");
  if (file.has("schema")) return read_graph(file);
  std::optional<JsonDocument> quant_document;
  std::optional<JsonValue> quant;
  if (!quant_json.empty()) {
    quant_document = JsonDocument::parse(quant_json, place + " (hf_quant_config.json)");
    quant = quant_document->root();
  }
  // Qwen's omni models: the part that reads and thinks; the one that speaks is left out.
  const auto thinker = file.find_object("thinker_config");
  const JsonValue root = thinker ? *thinker : file;
  JsonValue inner = unwrapped(root);
  const Choice choice = choose_family(root, inner);
  if (choice.family.layout == Layout::table) return read_llm(root, root, choice, quant);
  const bool wrapped = !inner.is_same_as(root);
  const bool gemma = wrapped && choice.family.type == "gemma3" && !inner.has("vocab_size");
  const bool silent = gemma || (wrapped && choice.family.has(kSilentDims) && !inner.has("hidden_size"));
  if (const std::string patch = translation(inner, choice.family); !patch.empty()) {
    const JsonDocument translated =
        JsonDocument::parse(inner.dump(), place).merged_with(JsonDocument::parse(patch, place));
    return read_llm(root, translated.root(), choice, quant);
  }
  if (!silent) return read_llm(root, inner, choice, quant);
  const JsonDocument filled = JsonDocument::parse(silent_dims(choice.family), place)
                                  .merged_with(JsonDocument::parse(inner.dump(), place + ": " + inner.path()));
  Llm llm = read_llm(root, filled.root(), choice, quant);
  const std::string lacks = gemma ? "no vocabulary: that and other keys left out are the class defaults of '"
                                  : "no width: that and other keys left out are the class defaults of '";
  llm.assumptions.insert(llm.assumptions.begin(), "text_config has " + lacks + std::string(choice.family.type) + "'");
  return llm;
}

std::vector<std::string> llm_names() { return data_names("models"); }

namespace {

namespace fs = std::filesystem;

bool is_file(const std::string& path) {
  std::error_code ec;
  return fs::is_regular_file(path, ec);
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The file of a name under data/models, or "". "Qwen/Qwen3-8B" finds qwen3-8b.
std::string file_of_name(const std::string& name) {
  const std::string folder = data_folder() + "/models/";
  for (const std::string& candidate : {name, lower(name), lower(name.substr(name.rfind('/') + 1))}) {
    if (candidate.find('/') == std::string::npos && is_file(folder + candidate + ".json"))
      return folder + candidate + ".json";
  }
  return "";
}

std::string sibling_quantization(const std::string& path) {
  const fs::path file(path), folder = file.parent_path();
  for (const fs::path& candidate :
       {folder / "quant" / (file.stem().string() + ".hf_quant_config.json"), folder / "hf_quant_config.json"}) {
    if (is_file(candidate.string())) return read_text_file(candidate.string());
  }
  return "";
}

/// The index of the checkpoint that the config belongs to: in its folder, or of its own name there. Shipped configs have
/// none.
void check_against_index(const std::string& path, Llm& llm) {
  const fs::path file(path), folder = file.parent_path();
  for (const fs::path& candidate :
       {folder / "model.safetensors.index.json", folder / "diffusion_pytorch_model.safetensors.index.json",
        folder / (file.stem().string() + ".safetensors.index.json")}) {
    if (!is_file(candidate.string())) continue;
    check_published_size(llm, read_text_file(candidate.string()), candidate.string());
    return;
  }
}

}  // namespace

Llm load_llm(const std::string& name_or_path) {
  std::string path = name_or_path;
  if (!name_or_path.empty() && is_file(path + "/config.json") &&
      (looks_like_path(path) || file_of_name(name_or_path).empty())) {
    path += "/config.json";
  }
  if (!(looks_like_path(path) && is_file(path))) {
    path = file_of_name(name_or_path);
    if (path.empty() && looks_like_path(name_or_path)) path = name_or_path;  // says that it can't be opened
  }
  if (path.empty()) {
    throw BadInput("model '" + name_or_path + "': expected a name under data/models or a path of a config.json" +
                   did_you_mean(lower(name_or_path), llm_names()));
  }
  Llm llm = parse_llm(read_text_file(path), sibling_quantization(path), path);
  check_against_index(path, llm);
  const fs::path file(path);
  llm.file = printable(path);
  if (!llm.name.empty()) return llm;  // a graph has its own
  llm.name = file.filename() == "config.json" && file.has_parent_path() && !file.parent_path().filename().empty()
                 ? file.parent_path().filename().string()
                 : file.stem().string();
  llm.name = printable(llm.name);  // a file may be called "\xff.json"
  return llm;
}

}  // namespace plumbline
