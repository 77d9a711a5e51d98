#include "ops/plan/kernel_counts.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/json_reader.hpp"

namespace plumbline {
namespace {

using Numbers = std::vector<std::pair<std::string, double*>>;

/// Which groups a kind's counts are in.
enum class KindGroup { rows, chain, transpose, training, flat };

KindGroup group_of(RowwiseKind kind) {
  switch (kind) {
    case RowwiseKind::layernorm:
    case RowwiseKind::rmsnorm:
    case RowwiseKind::softmax:
    case RowwiseKind::sum_rows:
    case RowwiseKind::argmax:
    case RowwiseKind::quantize: return KindGroup::rows;
    case RowwiseKind::softmax_backward:
    case RowwiseKind::scale_mask_softmax_dropout:
    case RowwiseKind::scale_mask_softmax_dropout_backward: return KindGroup::chain;
    case RowwiseKind::transpose_copy: return KindGroup::transpose;
    case RowwiseKind::rmsnorm_backward:
    case RowwiseKind::layernorm_backward:
    case RowwiseKind::sum_columns:
    case RowwiseKind::cross_entropy:
    case RowwiseKind::cross_entropy_fused: return KindGroup::training;
    default: return KindGroup::flat;
  }
}

Numbers numbers_of(KernelCounts::Row& c) {
  return {{"row", &c.row},
          {"warps", &c.warps},
          {"held", &c.held},
          {"filled", &c.filled},
          {"residual", &c.residual},
          {"again", &c.again},
          {"cluster", &c.cluster},
          {"cluster_turn", &c.cluster_turn},
          {"ragged_held", &c.ragged_held},
          {"ragged_filled", &c.ragged_filled},
          {"row_end", &c.row_end},
          {"walk_step", &c.walk_step},
          {"walk_step_ragged", &c.walk_step_ragged},
          {"sfu", &c.sfu},
          {"sfu_cluster", &c.sfu_cluster}};
}

Numbers numbers_of(KernelCounts::Flat& c) { return {{"instructions", &c.instructions}, {"sfu", &c.sfu}}; }

Numbers numbers_of(KernelCounts::FlatRagged& c) {
  return {{"instructions", &c.instructions},
          {"sfu", &c.sfu},
          {"row_end", &c.row_end},
          {"sfu_row_end", &c.sfu_row_end},
          {"drawings", &c.drawings}};
}

Numbers numbers_of(KernelCounts::Chain& c) {
  return {{"launch", &c.launch},
          {"row", &c.row},
          {"warps", &c.warps},
          {"held", &c.held},
          {"group", &c.group},
          {"group_full", &c.group_full},
          {"group_ragged", &c.group_ragged},
          {"walk_row", &c.walk_row},
          {"walk_group", &c.walk_group},
          {"walk_group_ragged", &c.walk_group_ragged},
          {"sfu_row", &c.sfu_row},
          {"sfu_group", &c.sfu_group},
          {"sfu_walk_group", &c.sfu_walk_group}};
}

template <class Visit>
void visit_rows(KernelCounts& c, Visit&& visit) {
  for (std::size_t i = 0; i < c.row.size(); ++i) {
    const auto kind = static_cast<RowwiseKind>(i);
    if (group_of(kind) == KindGroup::rows) visit("rows." + std::string(name(kind)), numbers_of(c.row[i]));
    if (group_of(kind) == KindGroup::flat) visit("flat." + std::string(name(kind)), numbers_of(c.flat[i]));
    if (goes_by_rows(kind)) visit("flat_ragged." + std::string(name(kind)), numbers_of(c.flat_ragged[i]));
  }
  visit("rows.all", Numbers{{"ragged_loads", &c.rows.ragged_loads}});
  visit("rows.other", numbers_of(c.rows_other));
  visit("rows.softmax_sfu", Numbers{{"row", &c.softmax_sfu.row},
                                    {"vector", &c.softmax_sfu.vector},
                                    {"again", &c.softmax_sfu.again},
                                    {"warps_log2", &c.softmax_sfu.warps_log2},
                                    {"cluster", &c.softmax_sfu.cluster}});
  visit("flat.all", Numbers{{"registers", &c.flat_registers}});
  visit("flat.other", numbers_of(c.flat_other));
}

template <class Visit>
void visit_selection(KernelCounts& c, Visit&& visit) {
  KernelCounts::WarpTopK& w = c.topk_warp;
  visit("topk.warp", Numbers{{"row", &w.row},
                             {"vector", &w.vector},
                             {"pick", &w.pick},
                             {"pick_vector", &w.pick_vector},
                             {"pick_vector_slots", &w.pick_vector_slots},
                             {"ragged", &w.ragged},
                             {"ragged_vector", &w.ragged_vector},
                             {"softmax", &w.softmax},
                             {"softmax_vector", &w.softmax_vector},
                             {"sfu_vector", &w.sfu_vector},
                             {"sfu_row", &w.sfu_row},
                             {"pick_clk", &w.pick_clk}});
  KernelCounts::CtaTopK& t = c.topk_cta;
  visit("topk.cta", Numbers{{"warp", &t.warp},
                            {"vector", &t.vector},
                            {"hit", &t.hit},
                            {"ranks", &t.ranks},
                            {"rank_found", &t.rank_found},
                            {"softmax", &t.softmax},
                            {"softmax_vector", &t.softmax_vector},
                            {"softmax_cluster", &t.softmax_cluster},
                            {"cluster", &t.cluster},
                            {"ragged", &t.ragged},
                            {"sfu_vector", &t.sfu_vector},
                            {"sfu_warp", &t.sfu_warp},
                            {"sfu_cluster", &t.sfu_cluster},
                            {"softmax_sfu_cluster", &t.softmax_sfu_cluster},
                            {"fetch_clk", &t.fetch_clk},
                            {"clk", &t.clk},
                            {"softmax_clk", &t.softmax_clk},
                            {"pick_clk", &t.pick_clk},
                            {"merge_clk", &t.merge_clk},
                            {"softmax_merge_clk", &t.softmax_merge_clk},
                            {"tail_clk", &t.tail_clk}});
}

template <class Visit>
void visit_chain(KernelCounts& c, Visit&& visit) {
  visit("chain.all", Numbers{{"philox", &c.chains.philox}});
  constexpr std::string_view kNames[] = {"chain.forward", "chain.fused_backward", "chain.softmax_backward",
                                         "chain.norm_backward"};  // by ChainOp
  for (std::size_t op = 0; op < c.chain.size(); ++op) visit(std::string(kNames[op]), numbers_of(c.chain[op]));
}

template <class Visit>
void visit_moves(KernelCounts& c, Visit&& visit) {
  visit("transpose", Numbers{{"whole", &c.transpose.whole},
                             {"whole_in", &c.transpose.whole_in},
                             {"whole_out", &c.transpose.whole_out},
                             {"ragged", &c.transpose.ragged},
                             {"sfu", &c.transpose.sfu},
                             {"clk", &c.transpose.clk},
                             {"scattered_fraction", &c.transpose.scattered_fraction}});
  visit("rope", Numbers{{"vector", &c.rope.vector},
                        {"single", &c.rope.single},
                        {"turns_once", &c.rope.turns_once},
                        {"turns", &c.rope.turns},
                        {"sfu_once", &c.rope.sfu_once},
                        {"sfu_turns", &c.rope.sfu_turns},
                        {"clk", &c.rope.clk},
                        {"scattered_fraction", &c.rope.scattered_fraction}});
  visit("embedding", Numbers{{"element", &c.embedding.element},
                             {"element_sfu", &c.embedding.element_sfu},
                             {"many", &c.embedding.many},
                             {"few", &c.embedding.few},
                             {"scattered_fraction", &c.embedding.scattered_fraction}});
  visit("sum_all", Numbers{{"thread", &c.sum_all.thread},
                           {"vector_bf16", &c.sum_all.vector_bf16},
                           {"vector_fp32", &c.sum_all.vector_fp32},
                           {"most_ctas", &c.sum_all.most_ctas},
                           {"tail_trips", &c.sum_all.tail_trips},
                           {"tail_clk", &c.sum_all.tail_clk},
                           {"tail_clk_a_cta", &c.sum_all.tail_clk_a_cta}});
  visit("cumsum", Numbers{{"instructions_bf16", &c.cumsum.instructions_bf16},
                          {"instructions_fp32", &c.cumsum.instructions_fp32},
                          {"tail_trips", &c.cumsum.tail_trips},
                          {"tail_clk", &c.cumsum.tail_clk},
                          {"tile_clk", &c.cumsum.tile_clk}});
}

Numbers numbers_of(KernelCounts::NormBackward& c) {
  return {{"row_1", &c.row_1},
          {"row_2", &c.row_2},
          {"row_4", &c.row_4},
          {"spilled_B", &c.spilled_B},
          {"spilled_residual_B", &c.spilled_residual_B},
          {"end_clk", &c.end_clk},
          {"overlap", &c.overlap}};
}

template <class Visit>
void visit_training(KernelCounts& c, Visit&& visit) {
  visit("training.rmsnorm_backward", numbers_of(c.rmsnorm_backward));
  visit("training.layernorm_backward", numbers_of(c.layernorm_backward));
  visit("training.norms_backward", Numbers{{"wait_fraction", &c.norms_backward.wait_fraction},
                                           {"loads", &c.norms_backward.loads},
                                           {"add_clk", &c.norms_backward.add_clk}});
  visit("training.additions", Numbers{{"l2_B", &c.additions.l2_B},
                                      {"scattered_overlap", &c.additions.scattered_overlap},
                                      {"thread", &c.additions.thread},
                                      {"element", &c.additions.element}});
  visit("training.sum_columns", Numbers{{"vector", &c.sum_columns.vector}, {"wave_clk", &c.sum_columns.wave_clk}});
  visit("training.cross_entropy", Numbers{{"vector", &c.cross_entropy.vector},
                                          {"sfu_vector", &c.cross_entropy.sfu_vector},
                                          {"wave_clk", &c.cross_entropy.wave_clk},
                                          {"ragged_clk", &c.cross_entropy.ragged_clk},
                                          {"end_clk", &c.cross_entropy.end_clk}});
  visit("training.swiglu_single",
        Numbers{{"instructions", &c.swiglu_single.instructions}, {"sfu", &c.swiglu_single.sfu}});
  visit("training.norm_all", Numbers{{"thread", &c.norm_all.thread},
                                     {"vector", &c.norm_all.vector},
                                     {"tail_clk", &c.norm_all.tail_clk},
                                     {"uneven_fraction", &c.norm_all.uneven_fraction}});
  visit("training.adamw", Numbers{{"scattered_fraction", &c.adamw.scattered_fraction}});
}

template <class Visit>
void visit_pipeline(KernelCounts& c, Visit&& visit) {
  visit("waits", Numbers{{"shuffle_clk", &c.waits.shuffle_clk},
                         {"exponentials_clk", &c.waits.exponentials_clk},
                         {"barrier_clk", &c.waits.barrier_clk},
                         {"turn_clk", &c.waits.turn_clk}});
  KernelCounts::Overlap& o = c.overlap;
  visit("overlap", Numbers{{"in_step", &o.in_step},
                           {"drifted", &o.drifted},
                           {"lanes_drifted", &o.lanes_drifted},
                           {"twice_in_step", &o.twice_in_step},
                           {"twice_drifted", &o.twice_drifted},
                           {"reading_in_step", &o.reading_in_step},
                           {"reading_drifted", &o.reading_drifted},
                           {"prefetching", &o.prefetching},
                           {"selecting", &o.selecting},
                           {"drift_waves", &o.drift_waves}});
  visit("waves", Numbers{{"begun_most", &c.waves.begun_most},
                         {"begun", &c.waves.begun},
                         {"drain", &c.waves.drain},
                         {"prefetch_wait", &c.waves.prefetch_wait}});
  visit("spills", Numbers{{"least_threads", &c.spills.least_threads},
                          {"l2_ratio", &c.spills.l2_ratio},
                          {"dram_ratio", &c.spills.dram_ratio}});
  visit("warm_l2", Numbers{{"begin", &c.warm_l2.begin}, {"over", &c.warm_l2.over}});
}

/// Reads the groups it is called with, then refuses what is left.
class Reader {
 public:
  explicit Reader(const JsonValue& counts) : counts_(counts) {}

  void operator()(const std::string& group, const Numbers& numbers) {
    groups_.push_back(group);
    const JsonValue values = counts_.at(group);
    std::vector<std::string> known{"source"};
    if (values.at("source").as_string().empty()) values.fail("expected where the counts are from in 'source'");
    for (const auto& [key, number] : numbers) {
      const JsonValue value = values.at(key);
      *number = value.as_number();
      if (*number < 0) value.fail("expected a count that is not negative, found " + value.dump());
      known.push_back(key);
    }
    refuse_others(values, known);
  }

  void refuse_other_groups() const { refuse_others(counts_, groups_); }

 private:
  static void refuse_others(const JsonValue& object, const std::vector<std::string>& known) {
    for (const std::string& key : object.keys()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      throw BadInput(object.place() + ": unknown key '" + key.substr(0, 60) + "'" + did_you_mean(key, known));
    }
  }

  JsonValue counts_;
  std::vector<std::string> groups_;
};

KernelCounts read_counts(const JsonValue& root) {
  root.refuse_unknown_keys({"schema", "architecture", "compiler", "counts"});
  if (root.at("schema").as_string() != "plumbline.kernels.v1") {
    root.at("schema").fail("expected \"plumbline.kernels.v1\", found " + root.at("schema").dump());
  }
  KernelCounts c;
  c.compiler = root.at("compiler").as_string();
  Reader read(root.at("counts"));
  visit_pipeline(c, read);
  visit_rows(c, read);
  visit_selection(c, read);
  visit_chain(c, read);
  visit_moves(c, read);
  visit_training(c, read);
  read.refuse_other_groups();
  return c;
}

}  // namespace

KernelCounts parse_kernel_counts(const std::string& json_text, const std::string& place) {
  return read_counts(JsonDocument::parse(json_text, place).root());
}

std::shared_ptr<const KernelCounts> load_kernel_counts(const std::string& set) {
  const std::string place = data_folder() + "/kernels/" + set, table = place + ".built.csv";
  const JsonDocument document = JsonDocument::read_file(place + ".json");
  KernelCounts counts = read_counts(document.root());
  counts.resources = RowResources(read_text_file(table), table);
  return std::make_shared<const KernelCounts>(std::move(counts));
}

}  // namespace plumbline
