// Encoder-decoders: T5, Whisper, BART and M2M-100 (NLLB).
#include <utility>

#include "ops/as_double.hpp"
#include "ops/llm/parts.hpp"
#include "ops/mixer/attention.hpp"

namespace plumbline {

AttentionSpec plain_attention(const LlmConfig& config, std::int64_t heads, std::int64_t width, bool causal, bool bias) {
  AttentionSpec a;
  a.q_heads = a.kv_heads = heads;
  a.qk_dim = a.v_dim = width;
  config.product(heads, width, "num_attention_heads");
  a.causal = causal;
  a.rope = false;
  a.qkv_bias = a.out_bias = bias;
  return a;
}

std::int64_t divided(const LlmConfig& config, std::int64_t hidden, std::int64_t heads) {
  if (hidden % heads != 0) {
    config.inner().fail("the hidden width " + std::to_string(hidden) + " is no multiple of the " +
                        std::to_string(heads) + " attention heads");
  }
  return hidden / heads;
}

/// T5 (arXiv:1910.10683): RMSNorm, no biases, relative position buckets in the first layer of each stack (in every
/// layer of UMT5), d_kv apart from d_model / heads.
void build_t5(const LlmConfig& config, Llm& llm) {
  if (config.is("t5gemma")) return build_t5gemma(config, llm);
  read_common(config, llm, config.family().has(kTied));
  const std::int64_t heads = config.dim({"num_heads", "num_attention_heads"}, "attention heads");
  const std::int64_t width = config.dim_or({"d_kv", "head_dim"}, 64);
  const std::int64_t layers = config.layers({"num_layers", "num_hidden_layers"});
  const std::int64_t decoder_layers =
      config.has({"num_decoder_layers"}) ? config.layers({"num_decoder_layers"}) : layers;
  const std::int64_t buckets = config.dim_or({"relative_attention_num_buckets"}, 32);
  FfnSpec ffn;
  const std::string proj = config.text_or({"feed_forward_proj"}, config.is("t5") ? "relu" : "gated-gelu");
  ffn.gated = proj.rfind("gated-", 0) == 0;
  if (const auto said = config.find({"is_gated_act"}); said && said->is_boolean() && said->as_bool() != ffn.gated) {
    said->fail("expected what 'feed_forward_proj' says");
  }
  ffn.activation = read_activation(config, ffn.gated ? Activation::gelu : Activation::relu);
  ffn.width = config.dim({"d_ff"}, "FFN width");
  for (const bool decoder : {true, false}) {
    StackSpec stack;
    stack.role = decoder ? StackSpec::Role::decoder : StackSpec::Role::encoder;
    stack.hidden = llm.hidden;
    LayerSpec layer;
    layer.mixer = plain_attention(config, heads, width, decoder, false);
    if (decoder) layer.cross = CrossAttentionSpec(plain_attention(config, heads, width, false, false));
    layer.ffn = ffn;
    layer.norms = decoder ? 3 : 2;
    layer.drops = true;
    const std::int64_t count = decoder ? decoder_layers : layers;
    for (std::int64_t i = 0; i < count; ++i) append_layer(stack, layer);
    const double tables = config.is("umt5") ? d(count) : 1.0;
    stack.other_params = d(llm.hidden) + tables * d(buckets) * d(heads);
    llm.stacks.push_back(std::move(stack));
  }
}

namespace {

/// Outside the layers. Whisper: two convolutions and fixed-length positions; BART: positions (two rows more than there
/// are, as BartLearnedPositionalEmbedding) and a norm of the embedding; mBART adds a final norm.
double seq2seq_other_params(const LlmConfig& config, const Llm& llm, bool decoder) {
  const double h = d(llm.hidden);
  if (config.is("whisper")) {
    if (decoder) return d(config.dim({"max_target_positions"}, "decoder positions")) * h + 2.0 * h;
    const double mel = d(config.dim_or({"num_mel_bins"}, 80));
    return 3.0 * mel * h + h + 3.0 * h * h + h + d(config.dim({"max_source_positions"}, "encoder positions")) * h +
           2.0 * h;
  }
  if (config.is("m2m_100")) return 2.0 * h;  // positions by sines; norms in front of the parts, and a last one
  if (config.is("marian")) return 0;         // by sines too, norms behind the parts
  if (config.is("pegasus")) return 2.0 * h;
  if (config.is("led")) {
    const char* key = decoder ? "max_decoder_position_embeddings" : "max_encoder_position_embeddings";
    return d(config.dim({key}, "learned positions")) * h + 2.0 * h;
  }
  const double positions = d(config.dim({"max_position_embeddings"}, "learned positions"));
  if (config.family().type.starts_with("blenderbot")) return positions * h + 2.0 * h;
  return (positions + 2) * h + 2.0 * h + (config.is("mbart") ? 2.0 * h : 0.0);
}

/// Positions by sines that the module keeps as parameters and no checkpoint holds.
void read_sines(const LlmConfig& config, Llm& llm) {
  if (!config.is("marian") && !config.is("pegasus")) return;
  llm.unfilled_params = 2.0 * d(config.dim({"max_position_embeddings"}, "positions")) * d(llm.hidden);
  config.assume("positions are sines, which transformers' module holds as parameters and no checkpoint fills");
}

/// Marian's encoder and decoder share their words unless the file says that they do not.
void read_marian_words(const LlmConfig& config, Llm& llm, bool apart) {
  const std::int64_t words = config.dim_or({"decoder_vocab_size"}, llm.vocab);
  if (!apart && words != llm.vocab) {
    config.find({"decoder_vocab_size"})->fail("expected the encoder's vocabulary, " + std::to_string(llm.vocab));
  }
  if (!apart) return;
  if (!llm.tied_embeddings)
    config.find({"share_encoder_decoder_embeddings"})->fail("false with a head that is not tied");
  llm.embedding_params = (d(llm.vocab) + d(words)) * d(llm.hidden);
  llm.vocab = words;
}

}  // namespace

void build_seq2seq(const LlmConfig& config, Llm& llm) {
  read_common(config, llm, true);
  const bool whisper = config.is("whisper");
  read_sines(config, llm);
  if (const std::string whole = first_architecture(config.inner()); whole.ends_with("ForCausalLM")) {
    config.inner().at("architectures").fail("'" + whole + "': a decoder without its encoder is not understood");
  }
  const bool apart = config.is("marian") && !config.flag_or({"share_encoder_decoder_embeddings"}, true);
  if (config.is("marian")) read_marian_words(config, llm, apart);
  if (!whisper && !apart && !llm.tied_embeddings) {
    // Embeddings of their own beside the shared one, as transformers' classes make them.
    llm.embedding_params = 3.0 * d(llm.vocab) * d(llm.hidden);
    config.assume("tie_word_embeddings is false: the encoder and the decoder have embeddings of their own");
  }
  if (whisper) llm.max_context = config.count_or({"max_target_positions"}, 0);
  config.find({"num_hidden_layers"});
  for (const bool decoder : {true, false}) {
    StackSpec stack;
    stack.role = decoder ? StackSpec::Role::decoder : StackSpec::Role::encoder;
    stack.hidden = llm.hidden;
    LayerSpec layer;
    const std::int64_t heads = decoder ? config.dim({"decoder_attention_heads"}, "decoder heads")
                                       : config.dim({"encoder_attention_heads"}, "encoder heads");
    AttentionSpec attention = plain_attention(config, heads, divided(config, llm.hidden, heads), decoder, true);
    attention.key_bias = !whisper;
    layer.mixer = attention;
    attention.causal = false;
    if (decoder) layer.cross = CrossAttentionSpec(attention);
    layer.ffn = FfnSpec{};
    layer.ffn->gated = false;
    layer.ffn->bias = true;
    layer.ffn->activation = read_activation(config, Activation::gelu);
    layer.ffn->width =
        decoder ? config.dim({"decoder_ffn_dim"}, "FFN width") : config.dim({"encoder_ffn_dim"}, "FFN width");
    layer.norm = NormKind::layer;
    layer.norm_vectors = 2;
    layer.norms = decoder ? 3 : 2;
    if (config.is("led") && !decoder) {
      // Longformer's projections of tokens that see everything; of a prompt there are few.
      config.find({"attention_window"});
      layer.beside.vectors = 3 * (llm.hidden * llm.hidden + llm.hidden);
      config.assume(
          "LED's encoder attends within windows: costed as full attention; its global projections run for no token");
    }
    const std::int64_t layers = decoder ? config.layers({"decoder_layers"}) : config.layers({"encoder_layers"});
    for (std::int64_t i = 0; i < layers; ++i) append_layer(stack, layer);
    stack.other_params = seq2seq_other_params(config, llm, decoder);
    if (whisper && !decoder) stack.fixed_tokens = config.dim({"max_source_positions"}, "encoder positions");
    llm.stacks.push_back(std::move(stack));
  }
}

}  // namespace plumbline
