#include "ops/llm/layer_kinds.hpp"

#include <algorithm>

namespace plumbline {
namespace {

std::string dense_text(const FfnSpec& ffn) {
  if (!ffn.gated) return "mlp";
  switch (ffn.activation) {
    case Activation::silu: return "swiglu";
    case Activation::gelu: return "geglu";
    default: return "reglu";
  }
}

std::string ffn_text(const FfnSpec& ffn) {
  if (!ffn.is_moe()) return dense_text(ffn);
  std::string text = "moe(" + std::to_string(ffn.topk) + " of " + std::to_string(ffn.experts);
  if (ffn.shared_width > 0) text += " + shared";
  text += ")";
  return ffn.width > 0 ? text + " + " + dense_text(ffn) : text;
}

std::string text_of(const LayerSpec& layer) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " + ") + part; };
  if (layer.mixer) add(layer.mixer->kind());
  if (layer.cross) add(layer.cross->kind());
  if (layer.ffn) add(ffn_text(*layer.ffn));
  if (layer.feed) add(layer.feed->kind());
  return layer.double_stream ? "2 streams of " + text : text;
}

}  // namespace

std::string_view word_of(StackSpec::Role role) {
  switch (role) {
    case StackSpec::Role::encoder: return "encoder";
    case StackSpec::Role::vision: return "vision";
    case StackSpec::Role::diffusion: return "diffusion";
    default: return "decoder";
  }
}

std::vector<LayerKind> layer_kinds(const Llm& llm) {
  std::vector<LayerKind> all;
  for (const StackSpec& stack : llm.stacks) {
    const auto first = static_cast<std::ptrdiff_t>(all.size());
    std::vector<bool> seen(stack.kinds.size(), false);
    std::vector<std::string> texts;
    for (const LayerSpec& kind : stack.kinds) texts.push_back(text_of(kind));
    for (const int number : stack.order) {
      const auto index = static_cast<std::size_t>(number);
      auto found = std::find_if(all.begin() + first, all.end(),
                                [&](const LayerKind& kind) { return kind.text == texts[index]; });
      if (found == all.end()) found = all.insert(all.end(), LayerKind{stack.role, texts[index]});
      ++found->count;
      if (!seen[index]) ++found->sizes;
      seen[index] = true;
    }
  }
  return all;
}

std::string layers_text(const std::vector<LayerKind>& kinds) {
  std::string text;
  for (const LayerKind& kind : kinds) {
    if (!text.empty()) text += ", ";
    if (kind.role != kinds.front().role) text += std::string(word_of(kind.role)) + " ";
    text += std::to_string(kind.count) + " x " + kind.text;
    if (kind.sizes > 1) text += " of " + std::to_string(kind.sizes) + " sizes";
  }
  return text;
}

}  // namespace plumbline
