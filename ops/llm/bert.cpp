// BERT and its kin: encoders with learned positions, or the same as decoders. What tells them apart stands in one table.
//
// Sources: modeling_<type>.py of Hugging Face transformers 5.17. A class "...ForCausalLM" (or "...LMHeadModel") has no pooler
// and the transform in front of its head; a bare model or a masked-language model is counted as the papers do, with the
// pooler and without the transform.
#include <algorithm>
#include <array>
#include <utility>

#include "ops/as_double.hpp"
#include "ops/llm/parts.hpp"

namespace plumbline {
namespace {

enum class BertHead { transform, bias };

struct BertKind {
  std::string_view type;
  bool embedding_norm = true, token_types = true, positions = true;
  bool final_norm = false;  ///< norms stand in front of the parts, and one behind the last layer
  bool pooler = true;       ///< of the bare model
  bool lm_pooler = false;   ///< the model with a language head keeps it
  BertHead head = BertHead::transform;
  bool masked_head = false;  ///< with a masked-language head it is counted as the module is: the transform, no pooler
};

constexpr auto kKinds = std::to_array<BertKind>({
    {.type = "distilbert", .token_types = false, .pooler = false, .masked_head = true},
    {.type = "electra", .pooler = false},
    {.type = "bert-generation", .token_types = false, .pooler = false, .head = BertHead::bias},
    {.type = "big_bird", .lm_pooler = true},
    {.type = "megatron-bert", .embedding_norm = false, .final_norm = true},
    {.type = "roberta-prelayernorm", .final_norm = true},
    {.type = "xlm-roberta-xl", .embedding_norm = false, .final_norm = true},
    {.type = "roformer", .positions = false, .pooler = false},
    {.type = "rembert", .head = BertHead::transform},
    {.type = "xlnet",
     .embedding_norm = false,
     .token_types = false,
     .positions = false,
     .pooler = false,
     .head = BertHead::bias},
    {.type = "git", .token_types = false, .pooler = false, .head = BertHead::bias},
    {.type = "mpnet", .token_types = false, .masked_head = true},
    {.type = "nomic_bert", .positions = false, .pooler = false, .masked_head = true},
    {.type = "layoutlm", .lm_pooler = true, .masked_head = true},
    {.type = "esm", .embedding_norm = false, .token_types = false, .positions = false, .final_norm = true},
    {.type = "deberta", .token_types = false, .positions = false, .pooler = false, .masked_head = true},
    {.type = "deberta-v2", .token_types = false, .positions = false, .pooler = false, .masked_head = true},
    {.type = "ibert", .masked_head = true},
    {.type = "dpr", .pooler = false},
    {.type = "xlm", .token_types = false, .pooler = false, .head = BertHead::bias},
});

BertKind kind_of(const LlmConfig& config) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(), [&](const BertKind& k) { return config.is(k.type); });
  return found == kKinds.end() ? BertKind{} : *found;
}

/// RoCBERT's two further embeddings, of sounds and of shapes, and the layer that joins the three.
double rocbert_params(const LlmConfig& config, double h) {
  if (!config.is("roc_bert")) return 0;
  const bool sound = config.flag_or({"enable_pronunciation"}, true), shape = config.flag_or({"enable_shape"}, true);
  const double sound_width = d(config.dim_or({"pronunciation_embed_dim"}, 768));
  const double shape_width = d(config.dim_or({"shape_embed_dim"}, 512));
  const double sounds = d(config.dim_or({"pronunciation_vocab_size"}, 910));
  const double shapes = d(config.dim_or({"shape_vocab_size"}, 24858));
  if (!config.flag_or({"concat_input"}, true)) return sounds * sound_width + shapes * shape_width;
  const double joined = h + (sound ? sound_width : 0.0) + (shape ? shape_width : 0.0);
  return sounds * sound_width + shapes * shape_width + joined * h + h;
}

/// XLM: one more embedding, of languages.
double language_params(const LlmConfig& config, double e) {
  if (!config.is("xlm")) return 0;
  const std::int64_t languages = config.dim_or({"n_langs"}, 1);
  return config.flag_or({"use_lang_emb"}, true) && languages > 1 ? d(languages) * e : 0.0;
}

/// Embeddings beside the words', their norm, the projection to the layers' width, the norm behind the last layer.
double ends(const LlmConfig& config, const Llm& llm, const BertKind& kind, std::int64_t embedding_width) {
  const double h = d(llm.hidden), e = d(embedding_width);
  if (config.is("xlnet")) return h;  // the embedding of a masked word
  const double positions = d(config.dim({"max_position_embeddings", "n_positions"}, "positions"));
  double count = 0;
  if (kind.positions) count += positions * e;
  if (kind.embedding_norm) count += 2.0 * e;
  if (kind.token_types) count += d(config.dim_or({"type_vocab_size"}, 2)) * e;
  if (config.is("ernie") && config.flag_or({"use_task_id"}, false)) {
    count += d(config.dim_or({"task_type_vocab_size"}, 3)) * e;
  }
  config.find({"task_type_vocab_size"});
  // LayoutLM: where a word stands on the page, by its corners, its height and its width.
  if (config.is("layoutlm")) count += 4.0 * d(config.dim_or({"max_2d_position_embeddings"}, 1024)) * e;
  if (config.is("mpnet")) {  // biases of relative positions, which all layers share
    count += d(config.dim_or({"relative_attention_num_buckets"}, 32)) *
             d(config.dim({"num_attention_heads"}, "attention heads"));
  }
  // RoFormer keeps the table of its rotation with the weights.
  if (config.is("roformer")) count += positions * h / d(config.dim({"num_attention_heads"}, "attention heads"));
  if (embedding_width != llm.hidden) count += e * h + h;
  if (kind.final_norm) count += 2.0 * h;
  return count + rocbert_params(config, h) + language_params(config, e);
}

/// The transform of a language head works at the embedding's width; RemBERT's has a width of its own and a head that is
/// never tied.
double head_transform(const LlmConfig& config, Llm& llm, const BertKind& kind, std::int64_t embedding_width) {
  const double h = d(llm.hidden), v = d(llm.vocab);
  llm.head_params = v;
  double width = d(embedding_width);
  if (config.is("rembert")) {
    width = d(config.dim_or({"output_embedding_size"}, 1664));
    llm.head_params += v * width;
    llm.tied_embeddings = true;  // its head is counted here
  } else if (!llm.tied_embeddings) {
    llm.head_params += v * width + (config.is("electra") || config.is("xlm") || config.is("xlnet") || config.is("git")
                                        ? 0.0
                                        : v);  // and a bias apart
    llm.tied_embeddings = true;
  }
  if (config.is("xlm") && config.flag_or({"asm"}, false)) {
    config.find({"asm"})->fail("an adaptive softmax is not understood");
  }
  return kind.head == BertHead::transform ? h * width + width + 2.0 * width : 0.0;
}

/// X-MOD: an adapter a language in every layer; a step runs through one of them.
void read_adapters(const LlmConfig& config, std::int64_t hidden, LayerSpec& layer) {
  if (!config.is("xmod")) return;
  const auto languages = config.find({"languages"});
  const std::int64_t count = languages ? static_cast<std::int64_t>(languages->size()) : 1;
  const std::int64_t width = std::max<std::int64_t>(1, hidden / config.dim_or({"adapter_reduction_factor"}, 2));
  config.flag_or({"adapter_reuse_layer_norm"}, true);
  config.flag_or({"ln_before_adapter"}, true);
  layer.beside.matrices = {{hidden, width}, {width, hidden}};
  layer.beside.vectors = count * (width + hidden) + (count - 1) * 2 * hidden * width;
  if (config.flag_or({"adapter_layer_norm"}, false)) layer.beside.vectors += 2 * hidden;
}

/// XLNet: relative positions through a projection of their own, three biases and two segments a head; no other biases.
void read_relative(const LlmConfig& config, std::int64_t hidden, LayerSpec& layer) {
  AttentionSpec& attention = layer.mixer.edit<AttentionSpec>();
  const std::int64_t heads = attention.q_heads, width = config.dim_or({"d_head"}, attention.qk_dim);
  attention.qk_dim = attention.v_dim = width;
  attention.qkv_bias = attention.out_bias = false;
  const std::int64_t all = config.product(heads, width, "d_head");
  layer.beside.matrices = {{hidden, all}};
  layer.beside.vectors = 5 * all;
  config.find({"mem_len", "reuse_len", "clamp_len"});
  for (const char* key : {"use_mems_eval", "use_mems_train", "bi_data", "same_length", "untie_r"}) {
    config.flag_or({key}, false);
  }
  config.assume("the scores of relative positions are not counted, their projection is");
}

/// Nomic's BERT (modeling_hf_nomic_bert.py beside the weights): a gated feed-forward part, rotation, biases by switches.
void read_nomic(const LlmConfig& config, LayerSpec& layer) {
  AttentionSpec& attention = layer.mixer.edit<AttentionSpec>();
  // NomicBertModel of transformers 5.17 writes BERT's names, and is always gated and without biases.
  const bool native = config.inner().has("hidden_size") && !config.inner().has("n_embd");
  if (native && config.dim_or({"head_dim"}, attention.qk_dim) != attention.qk_dim) {
    config.find({"head_dim"})->fail("expected the hidden width over the heads, " + std::to_string(attention.qk_dim));
  }
  attention.qkv_bias = config.flag_or({"qkv_proj_bias"}, !native);
  attention.out_bias = attention.qkv_bias;
  const std::string text = config.text_or({"activation_function"}, "gelu");
  layer.ffn->gated = native || text == "swiglu" || text == "geglu" || text == "glu";
  layer.ffn->bias = config.flag_or({"mlp_fc1_bias"}, !native);
  if (config.flag_or({"mlp_fc2_bias"}, !native) != layer.ffn->bias) {
    config.inner().fail("expected 'mlp_fc1_bias' and 'mlp_fc2_bias' alike");
  }
  if (config.flag_or({"use_rms_norm"}, false)) config.find({"use_rms_norm"})->fail("expected LayerNorm");
  if (config.flag_or({"prenorm"}, false)) config.find({"prenorm"})->fail("expected norms behind the parts");
  if (config.flag_or({"parallel_block"}, false)) config.find({"parallel_block"})->fail("expected parts in turn");
  for (const char* key : {"fused_bias_fc", "fused_dropout_add_ln", "use_xentropy", "dense_seq_output"}) {
    config.flag_or({key}, false);
  }
  config.find({"pad_vocab_size_multiple"});  // the vocabulary is stated padded
}

/// ESM-2 (modeling_esm.py of transformers 5.17): rotation, norms in front of the parts and one behind the last layer.
void check_esm(const LlmConfig& config) {
  if (config.text_or({"position_embedding_type"}, "absolute") != "rotary") {
    config.inner().fail("'position_embedding_type': expected rotary, as ESM-2 has");
  }
  if (config.flag_or({"emb_layer_norm_before"}, false)) {
    config.find({"emb_layer_norm_before"})->fail("a norm of the embedding (ESM-1b) is not understood");
  }
  if (config.flag_or({"is_folding_model"}, false)) config.find({"is_folding_model"})->fail("folding is not understood");
}

/// DeBERTa (arXiv 2006.03654, 2111.09543): a table of relative positions, which the layers' own projections read or those
/// of keys and queries; a convolution in the first layer of the largest. `layer` gets what each layer has; what all share
/// is returned.
double read_deberta(const LlmConfig& config, std::int64_t hidden, std::int64_t layers, LayerSpec& layer) {
  const double h = d(hidden);
  double count = d(config.count_or({"type_vocab_size"}, 0)) * h;
  const double rows = d(config.dim({"max_position_embeddings"}, "positions"));
  if (config.flag_or({"position_biased_input"}, true)) count += rows * h;
  if (config.dim_or({"embedding_size"}, hidden) != hidden) {
    config.find({"embedding_size"})->fail("expected the hidden width, " + std::to_string(hidden));
  }
  config.find({"pooler_hidden_size"});
  config.flag_or({"legacy"}, true);  // of the masked-language head
  const bool second = config.is("deberta-v2");
  if (!second) layer.mixer.edit<AttentionSpec>().key_bias = false;
  if (const std::int64_t taps = config.count_or({"conv_kernel_size"}, 0); taps > 0 && second) {
    count += h * h * d(taps) / d(config.dim_or({"conv_groups"}, 1)) + 3.0 * h;
  }
  const bool relative = config.flag_or({"relative_attention"}, false);
  const bool shared = config.flag_or({"share_att_key"}, false);
  const auto said = config.find({"max_relative_positions"});
  const std::int64_t buckets = config.has({"position_buckets"}) ? config.find({"position_buckets"})->as_integer() : -1;
  if (!relative) return count;
  std::string kinds;
  if (const auto stated = config.find({"pos_att_type"})) {
    if (stated->is_string()) kinds = stated->as_string();
    else {
      for (const JsonValue& one : stated->elements()) kinds += one.as_string() + "|";
    }
  }
  const std::int64_t most = said ? said->as_integer() : -1;
  const double reach = second && buckets > 0 ? d(buckets) : (most > 0 ? d(most) : rows);
  count += 2.0 * reach * h;
  if (second && config.text_or({"norm_rel_ebd"}, "none").find("layer_norm") != std::string::npos) count += 2.0 * h;
  const bool keys = kinds.find("c2p") != std::string::npos, queries = kinds.find("p2c") != std::string::npos;
  double own = 0;
  if (!second || !shared) own += (keys ? h * h + (second ? h : 0.0) : 0.0) + (queries ? h * h + h : 0.0);
  config.assume(
      "the scores of relative positions are not counted, the projections of their table neither, but of DeBERTa-v2 in "
      "training where a stack has its launches (hf-sdpa, hf-eager)");
  return count + d(layers) * own;
}

LayerSpec bert_layer(const LlmConfig& config, const Llm& llm, bool causal) {
  LayerSpec layer;
  const std::int64_t heads = config.dim({"num_attention_heads", "n_heads", "n_head"}, "attention heads");
  AttentionSpec attention = plain_attention(config, heads, divided(config, llm.hidden, heads), causal, true);
  attention.rope = config.is("roformer") || config.is("esm") || config.is("nomic_bert");
  if (config.is("big_bird")) {
    attention.qkv_bias = config.flag_or({"use_bias"}, true);
    if (config.text_or({"attention_type"}, "block_sparse") == "block_sparse") {
      config.assume("block-sparse attention is costed as full attention, which it is up to 1024 tokens");
    }
    config.find({"block_size", "num_random_blocks"});
  }
  layer.mixer = attention;
  layer.ffn = FfnSpec{};
  layer.ffn->gated = false;
  layer.ffn->bias = true;
  layer.ffn->activation = read_activation(config, Activation::gelu);
  layer.ffn->width = config.is("xlm")
                         ? config.product(llm.hidden, 4, "emb_dim")
                         : config.dim({"intermediate_size", "hidden_dim", "d_inner", "n_inner"}, "FFN width");
  layer.norm = NormKind::layer;
  layer.norm_vectors = 2;
  if (config.is("nomic_bert")) read_nomic(config, layer);
  if (config.is("esm")) check_esm(config);
  read_adapters(config, llm.hidden, layer);
  if (config.is("xlnet")) read_relative(config, llm.hidden, layer);
  return layer;
}

std::int64_t embedding_width(const LlmConfig& config, std::int64_t hidden) {
  if (config.is("rembert")) return config.dim_or({"input_embedding_size"}, 256);
  const bool own = config.is("albert") || config.is("electra") || config.is("roformer");
  return own ? config.dim_or({"embedding_size"}, hidden) : hidden;
}

void refuse_groups(const LlmConfig& config) {
  if (config.dim_or({"num_hidden_groups"}, 1) != 1) {
    config.find({"num_hidden_groups"})->fail("more than one group of shared layers is not understood");
  }
  if (config.dim_or({"inner_group_num"}, 1) != 1) {
    config.find({"inner_group_num"})->fail("more than one layer a group is not understood");
  }
}

}  // namespace

void build_bert(const LlmConfig& config, Llm& llm) {
  if (config.is("modernbert")) return build_modernbert(config, llm);
  read_common(config, llm, !config.is("git"));
  if (config.flag_or({"add_cross_attention"}, false)) {
    config.find({"add_cross_attention"})->fail("cross attention in a model of this kind is not understood");
  }
  const std::string architecture = first_architecture(config.has({"architectures"}) ? config.inner() : config.outer());
  const auto named = [&](const char* part) { return architecture.find(part) != std::string::npos; };
  const bool causal_head = named("CausalLM") || named("LMHead") || named("GenerationDecoder");
  llm.has_head = causal_head || named("MaskedLM") || named("PreTraining");
  const bool causal = config.is("git") || config.flag_or({"is_decoder"}, false) || config.flag_or({"causal"}, false);
  const BertKind kind = kind_of(config);
  const bool transforms = causal_head || (named("MaskedLM") && kind.masked_head);
  StackSpec stack;
  stack.role = causal ? StackSpec::Role::decoder : StackSpec::Role::encoder;
  stack.hidden = llm.hidden;
  LayerSpec layer = bert_layer(config, llm, causal);
  const std::int64_t layers = config.layers({"num_hidden_layers", "n_layers", "n_layer"});
  const bool deberta = config.family().type.starts_with("deberta");
  const double relative = deberta ? read_deberta(config, llm.hidden, layers, layer) : 0.0;
  for (std::int64_t i = 0; i < layers; ++i) append_layer(stack, layer);
  const std::int64_t width = embedding_width(config, llm.hidden);
  if (config.is("albert")) {
    stack.shared_weights = true;
    refuse_groups(config);
  }
  llm.embedding_params = d(llm.vocab) * d(width);
  stack.other_params = ends(config, llm, kind, width) + relative;
  if (transforms) {
    stack.other_params += head_transform(config, llm, kind, width);
    config.assume("the transform in front of the head is counted, the pooler is not");
  }
  llm.tied_embeddings = true;
  if (transforms ? kind.lm_pooler : kind.pooler) {
    stack.other_params += d(llm.hidden) * d(llm.hidden) + d(llm.hidden);
    config.assume(transforms ? "the pooler is counted, as the class keeps it"
                             : "the pooler is counted, the transform of a masked-language head is not");
  }
  llm.stacks.push_back(std::move(stack));
}

}  // namespace plumbline
