#include "ops/config/family.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace plumbline {
namespace {

constexpr std::uint64_t kAllBias = kQkvBias | kOutBias | kFfnBias;
constexpr std::uint64_t kGpt2 = kTied | kLayerNorm | kPlainFfn | kAllBias | kPositions | kNoRope | kGelu;
constexpr std::uint64_t kGemma = kTied | kGelu;
constexpr std::uint64_t kBert = kTied | kLayerNorm | kPlainFfn | kAllBias | kPositions | kNoRope | kGelu;
constexpr std::uint64_t kQwen3Next = kQkNormHead | kOutputGate | kSharedGate | kDeltaNet;

// Sources: configuration_<type>.py (class defaults) and modeling_<type>.py of Hugging Face transformers 4.40 - 5.0, or
// the remote code beside the weights for baichuan, chatglm, internlm, minicpm, deepseek, kimi, phi-msft, qwen.
constexpr Layout kDecoder = Layout::decoder;
constexpr auto kFamilies = std::to_array<Family>({
    {"llama", kDecoder, kSilentDims},
    {"mistral", kDecoder, kWindow | kSilentDims},
    {"ministral", kDecoder, kWindow},
    {"ministral3", kDecoder, kWindow},
    {"mistral3", kDecoder, kWindow},
    {"mixtral", kDecoder, kWindow | kFlooredHeads},
    {"qwen", kDecoder, kQkvBias},
    {"qwen2", kDecoder, kQkvBias | kQkvBiasOnly | kFlooredHeads | kSilentDims},
    {"qwen2_moe", kDecoder, kQkvBias | kQkvBiasOnly | kSharedGate | kFlooredHeads},
    {"qwen2_vl", kDecoder, kQkvBias | kQkvBiasOnly},
    {"qwen2_5_vl", kDecoder, kQkvBias | kQkvBiasOnly},
    {"qwen3", kDecoder, kQkNormHead},
    {"qwen3_moe", kDecoder, kQkNormHead | kFlooredHeads},
    {"qwen3_vl", kDecoder, kQkNormHead},
    {"qwen3_vl_moe", kDecoder, kQkNormHead},
    {"qwen3_next", kDecoder, kQwen3Next},
    {"qwen3_5", kDecoder, kQwen3Next},
    {"qwen3_5_moe", kDecoder, kQwen3Next},
    {"gemma", kDecoder, kGemma},
    {"gemma2", kDecoder, kGemma | kFourNorms | kEvenSlide},
    {"gemma3", kDecoder, kGemma | kFourNorms | kQkNormHead, 6},
    {"phi", kDecoder, kLayerNorm | kPlainFfn | kAllBias | kParallel | kHeadBias | kGelu | kFlooredHeads},
    {"phi_msft", kDecoder, kLayerNorm | kPlainFfn | kAllBias | kParallel | kHeadBias | kGelu},
    {"phi3", kDecoder, kWindow | kFlooredHeads},
    {"phimoe", kDecoder, kLayerNorm | kWindow | kFlooredHeads},
    {"deepseek", kDecoder, 0},
    {"deepseek_v2", kDecoder, 0},
    {"deepseek_v3", kDecoder, 0},
    {"deepseek_v32", kDecoder, 0},
    {"deepseek_v4", kDecoder, kWindow},
    {"kimi_k2", kDecoder, 0},
    {"kimi_k25", kDecoder, 0},
    {"glm_moe_dsa", kDecoder, 0},
    {"glm4_moe", kDecoder, kQkvBiasOnly | kRouterBias | kFlooredHeads},
    {"glm4", kDecoder, kQkvBiasOnly | kFourNorms},
    {"glm4v", kDecoder, kQkvBiasOnly | kFourNorms},
    {"glm4v_moe", kDecoder, kQkvBiasOnly | kRouterBias | kFlooredHeads},
    {"glm", kDecoder, kQkvBiasOnly},
    {"chatglm", kDecoder, 0},
    {"dots1", kDecoder, kQkNormHead | kRouterBias},
    {"minimax_m2", kDecoder, kQkNormAll},
    {"gpt2", kDecoder, kGpt2},
    {"gpt_bigcode", kDecoder, kGpt2 | kMultiQuery},
    {"gpt_neo", kDecoder, kTied | kLayerNorm | kPlainFfn | kOutBias | kFfnBias | kPositions | kNoRope | kGelu},
    {"gpt_neox", kDecoder, kLayerNorm | kPlainFfn | kAllBias | kGelu},
    {"gptj", kDecoder, kLayerNorm | kPlainFfn | kFfnBias | kParallel | kHeadBias | kGelu},
    {"codegen", kDecoder, kLayerNorm | kPlainFfn | kFfnBias | kParallel | kHeadBias | kGelu},
    {"bloom", kDecoder, kTied | kLayerNorm | kPlainFfn | kAllBias | kNoRope | kGelu},
    {"falcon", kDecoder, kTied | kLayerNorm | kPlainFfn | kGelu},
    {"mpt", kDecoder, kTied | kLayerNorm | kPlainFfn | kNoRope | kGelu},
    {"opt", kDecoder, kTied | kLayerNorm | kPlainFfn | kAllBias | kPositions | kNoRope},
    {"starcoder2", kDecoder, kTied | kLayerNorm | kPlainFfn | kAllBias | kWindow | kGelu | kFlooredHeads},
    {"cohere", kDecoder, kTied | kLayerNorm | kNormNoBias | kParallel | kFlooredHeads},
    {"cohere2", kDecoder, kTied | kLayerNorm | kNormNoBias | kParallel, 4},
    {"olmo", kDecoder, kLayerNorm | kNormNoWeight | kFlooredHeads},
    {"olmo2", kDecoder, kQkNormAll | kFlooredHeads},
    {"olmo3", kDecoder, kQkNormAll | kFlooredHeads, 4},
    {"olmoe", kDecoder, kQkNormAll | kFlooredHeads},
    {"stablelm", kDecoder, kLayerNorm},
    {"nemotron", kDecoder, kLayerNorm | kPlainFfn},
    {"baichuan", kDecoder, 0},
    {"internlm", kDecoder, 0},
    {"internlm2", kDecoder, 0},
    {"internlm3", kDecoder, 0},
    {"minicpm", kDecoder, kTied},
    {"granite", kDecoder, kFlooredHeads},
    {"granitemoe", kDecoder, kFlooredHeads},
    {"granitemoehybrid", kDecoder, kTied | kFlooredHeads},
    {"exaone", kDecoder, 0},
    {"exaone4", kDecoder, kQkNormHead | kFlooredHeads},
    {"seed_oss", kDecoder, kQkvBias | kQkvBiasOnly},
    {"smollm3", kDecoder, kTied | kFlooredHeads},
    {"arcee", kDecoder, kPlainFfn},
    {"apertus", kDecoder, kPlainFfn | kQkNormHead | kFlooredHeads},
    {"ernie4_5", kDecoder, kTied},
    {"ernie4_5_moe", kDecoder, kTied | kRouterBias | kFlooredHeads},
    {"hunyuan_v1_dense", kDecoder, kTied | kQkNormHead},
    {"hunyuan_v1_moe", kDecoder, kTied | kQkNormHead | kSharedExpert},
    {"hunyuan", kDecoder, kTied},
    {"dbrx", kDecoder, kLayerNorm | kNormNoBias},
    {"openelm", kDecoder, kTied},
    {"step3_text", kDecoder, 0},
    {"nemotron-nas", kDecoder, 0},
    {"arctic", kDecoder, 0},
    {"bailing_moe", kDecoder, 0},
    {"bailing_moe_v2", kDecoder, kQkNormHead},
    {"rwkv5", kDecoder, kLayerNorm | kPlainFfn | kNoRope},
    {"rwkv6", kDecoder, kLayerNorm | kPlainFfn | kNoRope},
    {"rwkv7", kDecoder, kLayerNorm | kPlainFfn | kNoRope},
    {"mimo", kDecoder, kQkvBias | kQkvBiasOnly},
    {"dream", kDecoder, kQkvBias | kQkvBiasOnly},
    {"llada", kDecoder, 0},
    {"gpt_oss", kDecoder, kSinks | kRouterBias | kFfnBias | kEvenSlide},
    {"llama4", kDecoder, kSharedExpert | kQkNormFree | kNope4},
    {"llava", kDecoder, kSilentDims},
    {"jamba", kDecoder, kNoRope},
    {"lfm2", kDecoder, kTied | kQkNormHead | kFlooredHeads},
    {"bamba", kDecoder, 0},
    {"afmoe", kDecoder, kQkNormHead | kFourNorms | kOutputGate | kRouterBias},
    {"aria_text", kDecoder, 0},
    {"axk1", kDecoder, 0},
    {"axk2", kDecoder, 0},
    {"bitnet", kDecoder, kSubNorms | kFlooredHeads},
    {"cohere2_moe", kDecoder, kTied | kLayerNorm | kNormNoBias | kParallel, 4},
    {"cwm", kDecoder, 0},
    {"diffllama", kDecoder, 0},
    {"emu3_text_model", kDecoder, kFlooredHeads},
    {"emu3", kDecoder, kFlooredHeads},
    {"exaone_moe", kDecoder, kQkNormHead | kFlooredHeads},
    {"flex_olmo", kDecoder, kQkNormAll | kFlooredHeads},
    {"glm4_moe_lite", kDecoder, 0},
    {"granitemoeshared", kDecoder, kFlooredHeads},
    {"granite_swa", kDecoder, kTied | kFlooredHeads},
    {"granitemoe_swa", kDecoder, kFlooredHeads},
    {"helium", kDecoder, 0},
    {"hy_v3", kDecoder, kQkNormHead},
    {"hyperclovax", kDecoder, 0},
    {"laguna", kDecoder, kQkNormHead | kRouterBias},
    {"lfm2_moe", kDecoder, kTied | kQkNormHead},
    {"mellum", kDecoder, kQkNormHead},
    {"minicpm3", kDecoder, kTied},
    {"minimax_m3_vl_text", kDecoder, kQkNormHead},
    {"solar_open", kDecoder, 0},
    {"vaultgemma", kDecoder, kGemma},
    {"youtu", kDecoder, kTied},
    {"phi3small", kDecoder, kTied | kLayerNorm | kAllBias},
    {"jais", kDecoder, kTied | kLayerNorm | kAllBias | kNoRope},
    {"chameleon", kDecoder, kQkNormAll | kQkNormBias},
    {"zaya", kDecoder, kTied | kWindow},
    {"inkling", kDecoder, kQkNormHead | kNeverTied},
    {"biogpt", kDecoder, kGpt2},
    {"xglm", kDecoder, kTied | kLayerNorm | kPlainFfn | kAllBias | kNoRope | kGelu},
    {"openai-gpt", kDecoder, kGpt2 | kNoFinalNorm},
    {"ctrl", kDecoder, kTied | kLayerNorm | kPlainFfn | kAllBias | kNoRope | kGelu | kHeadBias},
    {"cpmant", kDecoder, kNoRope | kGelu | kNeverTied},
    {"gpt_neox_japanese", kDecoder, kTied | kLayerNorm | kPlainFfn | kGelu},
    {"persimmon", kDecoder, kLayerNorm | kPlainFfn | kAllBias | kQkNormBias},
    {"fuyu", kDecoder, kLayerNorm | kPlainFfn | kAllBias | kQkNormBias},
    {"jais2", kDecoder, kLayerNorm | kPlainFfn | kAllBias},
    {"nanochat", kDecoder, kFlooredHeads | kPlainFfn | kNormNoWeight | kQkNormHead | kQkNormNoWeight},
    {"grok-1", kDecoder, kTied | kFourNorms | kGelu},
    {"grok-2", kDecoder, kFourNorms | kGelu},
    {"solar", kDecoder, 0},
    {"orion", kDecoder, kLayerNorm},
    {"xverse", kDecoder, 0},
    {"aquila", kDecoder, 0},
    {"mobilellm", kDecoder, 0},
    {"modernbert-decoder", kDecoder, kTied | kLayerNorm | kNormNoBias | kGelu},
    {"hy_v4", kDecoder, 0},
    {"doge", kDecoder, kQkNormHead | kFlooredHeads},
    {"hrm_text", kDecoder, kNormNoWeight | kNoFinalNorm | kOutputGate},
    {"longcat_flash", kDecoder, 0},
    {"mllama_text_model", kDecoder, kNeverTied},
    {"rwkv", kDecoder, kLayerNorm | kPlainFfn | kNoRope},
    {"xlstm", kDecoder, kNoRope | kNeverTied},
    {"jetmoe", kDecoder, kTied},
    {"zamba", Layout::zamba, kTied | kNoRope},
    {"zamba2", Layout::zamba, kTied | kNoRope},
    {"phi4_multimodal", kDecoder, kWindow | kFlooredHeads},
    {"moshi", kDecoder, kNeverTied},
    {"mimo_v2_flash", kDecoder, 0},
    {"gemma3n", kDecoder, kGemma | kFourNorms | kQkNormHead},
    {"gemma4", kDecoder, kGemma | kFourNorms | kQkNormHead, 6},
    {"gemma4_unified", kDecoder, kGemma | kFourNorms | kQkNormHead, 6},
    {"falcon_h1", kDecoder, kFlooredHeads},
    {"kimi_linear", kDecoder, kNeverTied},
    {"minimax", kDecoder, kFlooredHeads},
    {"olmo_hybrid", kDecoder, kQkNormAll | kFlooredHeads},
    {"recurrent_gemma", kDecoder, kGemma | kOutBias | kFfnBias},
    {"nemotron_h", Layout::nemotron_h, kPlainFfn | kRouterBias | kNoRope | kNeverTied},
    {"mamba", Layout::mamba, kTied},
    {"falcon_mamba", Layout::mamba, kTied},
    {"mamba2", Layout::mamba, kTied},
    {"bert", Layout::bert, kBert},
    {"roberta", Layout::bert, kBert},
    {"xlm_roberta", Layout::bert, kBert},
    {"camembert", Layout::bert, kBert},
    {"electra", Layout::bert, kBert},
    {"distilbert", Layout::bert, kBert},
    {"albert", Layout::bert, kBert},
    {"bert-generation", Layout::bert, kBert},
    {"big_bird", Layout::bert, kBert},
    {"data2vec-text", Layout::bert, kBert},
    {"ernie", Layout::bert, kBert},
    {"megatron-bert", Layout::bert, kBert},
    {"rembert", Layout::bert, kBert},
    {"roberta-prelayernorm", Layout::bert, kBert},
    {"roc_bert", Layout::bert, kBert},
    {"roformer", Layout::bert, kBert},
    {"xlm", Layout::bert, kBert},
    {"xlm-roberta-xl", Layout::bert, kBert},
    {"xmod", Layout::bert, kBert},
    {"xlnet", Layout::bert, kBert},
    {"mpnet", Layout::bert, kBert},
    {"git", Layout::bert, kBert},
    {"nomic_bert", Layout::bert, kBert},
    {"esm", Layout::bert, kBert},
    {"modernbert", Layout::bert, kBert},
    {"deberta", Layout::bert, kBert},
    {"deberta-v2", Layout::bert, kBert},
    {"dpr", Layout::bert, kBert},
    {"ibert", Layout::bert, kBert},
    {"layoutlm", Layout::bert, kBert},
    {"splinter", Layout::bert, kBert},
    {"t5gemma", Layout::t5, kGemma | kFourNorms | kEvenSlide},
    {"pegasus", Layout::seq2seq, kBert},
    {"marian", Layout::seq2seq, kBert},
    {"blenderbot", Layout::seq2seq, kBert},
    {"blenderbot-small", Layout::seq2seq, kBert},
    {"plbart", Layout::seq2seq, kBert},
    {"led", Layout::seq2seq, kBert},
    {"dinov2", Layout::vit, kBert},
    {"dinov2_with_registers", Layout::vit, kBert},
    {"siglip_vision_model", Layout::vit, kBert},
    {"t5", Layout::t5, kTied | kPlainFfn | kNoRope},
    {"mt5", Layout::t5, kNoRope},
    {"umt5", Layout::t5, kNoRope},
    {"whisper", Layout::seq2seq, kBert},
    {"bart", Layout::seq2seq, kBert},
    {"mbart", Layout::seq2seq, kBert},
    {"m2m_100", Layout::seq2seq, kBert},
    {"vit", Layout::vit, kBert},
    {"deit", Layout::vit, kBert},
    {"clip_vision_model", Layout::vit, kBert},
});

constexpr auto kUnread = std::to_array<std::string_view>(
    {"clip", "clip_text_model", "siglip", "wav2vec2", "hubert", "swin", "convnext", "colpali", "grounding-dino",
     "mm-grounding-dino", "vibevoice_asr", "blt", "squeezebert", "lilt", "muse_glimmer_text", "openai_privacy_filter"});

/// Other names of a family.
struct Alias {
  std::string_view name, type;
};
constexpr auto kAliases = std::to_array<Alias>({{"hf_olmo", "olmo"},
                                                {"minimax_text_01", "minimax"},
                                                {"minimax_m1", "minimax"},
                                                {"deci", "nemotron-nas"},
                                                {"nemotron_nas", "nemotron-nas"},
                                                {"inkling_mm_model", "inkling"},
                                                {"qwen2_5_omni_text", "qwen2_5_vl"},
                                                {"qwen3_omni_moe_text", "qwen3_moe"},
                                                {"paddleocr_vl_text", "ernie4_5"},
                                                {"glm_ocr_text", "glm4"},
                                                {"phi3_v", "phi3"},
                                                {"step3", "step3_text"},
                                                {"step3_vl", "step3_text"}});

std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

const Family* find_plain(const std::string& wanted) {
  const auto* found =
      std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& f) { return plain(f.type) == wanted; });
  return found == kFamilies.end() ? nullptr : &*found;
}

bool drop_suffix(std::string& text, std::string_view suffix) {
  if (text.size() <= suffix.size() || text.compare(text.size() - suffix.size(), suffix.size(), suffix) != 0)
    return false;
  text.resize(text.size() - suffix.size());
  return true;
}

}  // namespace

const Family* find_family(std::string_view model_type) {
  for (const Alias& alias : kAliases) {
    if (alias.name == model_type) return find_family(alias.type);
  }
  for (const Family& f : kFamilies) {
    if (f.type == model_type) return &f;
  }
  std::string name = plain(model_type);  // "phi-msft", "qwen3_vl_text"
  if (const Family* family = find_plain(name)) return family;
  return drop_suffix(name, "text") ? find_plain(name) : nullptr;
}

const Family* family_of_architecture(std::string_view architecture) {
  std::string name(architecture);
  for (const std::string_view suffix : {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "WithLMHeadModel",
                                        "ForMaskedLM", "ForImageClassification", "Model"}) {
    if (drop_suffix(name, suffix)) break;
  }
  return find_family(name);
}

bool is_unread_type(std::string_view model_type) {
  return std::find(kUnread.begin(), kUnread.end(), model_type) != kUnread.end();
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& f : kFamilies) names.emplace_back(f.type);
  return names;
}

}  // namespace plumbline
