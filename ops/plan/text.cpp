#include "ops/plan/text.hpp"

#include <charconv>

namespace plumbline {
namespace {

std::string word(const char* key, std::int64_t value) { return key + std::to_string(value); }

/// Reads a text from left to right.
class PlanReader {
 public:
  explicit PlanReader(std::string_view text) : rest_(text) {}

  /// Whether `word` comes next; takes it if so.
  bool take(std::string_view word) {
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  /// `word` and the number behind it.
  bool take(std::string_view word, std::int64_t& value) {
    if (!take(word)) return false;
    const char* end = rest_.data() + rest_.size();
    const auto [past, error] = std::from_chars(rest_.data(), end, value);
    if (error != std::errc() || value < 0) return false;
    rest_.remove_prefix(static_cast<std::size_t>(past - rest_.data()));
    return true;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace

std::string plan_text(const GemmPlan& plan) {
  std::string text = word("tile=", plan.tile_m) + word("x", plan.tile_n) + word("x", plan.tile_k);
  text += word(" stages=", plan.stages) + word(" splits=", plan.splits);
  if (plan.cluster_m * plan.cluster_n > 1) text += word(" cluster=", plan.cluster_m) + word("x", plan.cluster_n);
  return text + (plan.swapped ? " swapped" : "") + (plan.clipped ? " clipped" : "") +
         (plan.engine == GemmEngine::wgmma ? " wgmma" : " mma");
}

std::string plan_text(const AttentionPlan& plan) {
  std::string text = word("q_tile=", plan.q_tile) + word(" kv_tile=", plan.kv_tile) + word(" splits=", plan.splits);
  if (plan.packed_heads > 1) text += word(" packed=", plan.packed_heads);
  return text + (plan.stages > 0 ? word(" stages=", plan.stages) + " mma" : "");
}

std::optional<GemmPlan> parse_gemm_plan(std::string_view text) {
  PlanReader in(text);
  GemmPlan p;
  if (!in.take("tile=", p.tile_m) || !in.take("x", p.tile_n) || !in.take("x", p.tile_k)) return std::nullopt;
  if (!in.take(" stages=", p.stages) || !in.take(" splits=", p.splits)) return std::nullopt;
  if (in.take(" cluster=", p.cluster_m) && !in.take("x", p.cluster_n)) return std::nullopt;
  p.swapped = in.take(" swapped");
  p.clipped = in.take(" clipped");
  p.engine = in.take(" wgmma") ? GemmEngine::wgmma : GemmEngine::mma_sync;
  if (p.engine == GemmEngine::mma_sync && (p.clipped || !in.take(" mma"))) return std::nullopt;
  if (!in.at_end() || plan_text(p) != text) return std::nullopt;
  return p;
}

std::optional<AttentionPlan> parse_attention_plan(std::string_view text) {
  PlanReader in(text);
  AttentionPlan p;
  if (!in.take("q_tile=", p.q_tile) || !in.take(" kv_tile=", p.kv_tile) || !in.take(" splits=", p.splits))
    return std::nullopt;
  in.take(" packed=", p.packed_heads);
  if (in.take(" stages=", p.stages) && !in.take(" mma")) return std::nullopt;
  if (!in.at_end() || plan_text(p) != text) return std::nullopt;
  return p;
}

}  // namespace plumbline
