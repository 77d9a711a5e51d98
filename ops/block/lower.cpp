// A block's operators in a step.
#include <cmath>
#include <mutex>
#include <unordered_map>
#include <variant>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "ops/block/evaluate.hpp"
#include "ops/mixer/attention_core.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

using block::Values;
using lowering::Step;

double as_number(bool flag) { return flag ? 1 : 0; }

StepNumbers numbers_of(const Step& s) {
  StepNumbers n{};
  const auto set = [&](StepNumber which, double value) { number_of(n, which) = value; };
  const auto whole = [&](StepNumber which, std::int64_t value) { set(which, static_cast<double>(value)); };
  whole(StepNumber::tokens, s.tokens);
  whole(StepNumber::sequences, s.batch);
  whole(StepNumber::fresh, s.q_len);
  whole(StepNumber::context, s.kv_len);
  whole(StepNumber::source, s.cross_len);
  whole(StepNumber::hidden, s.hidden);
  whole(StepNumber::tensor, s.tp());
  whole(StepNumber::ranks_of_context, s.cp());
  whole(StepNumber::page, s.workload.page);
  set(StepNumber::decode, as_number(s.decode));
  set(StepNumber::cache, as_number(s.cache));
  set(StepNumber::train, as_number(s.train()));
  set(StepNumber::eager, as_number(s.none()));
  set(StepNumber::typical, as_number(!s.none() && !s.max()));
  set(StepNumber::fused, as_number(s.max()));
  set(StepNumber::scores, as_number(s.none() && !s.workload.fused_attention));
  set(StepNumber::dropout, as_number(s.dropout));
  set(StepNumber::padded, as_number(s.padded));
  whole(StepNumber::keys, s.batch * s.all_keys);
  set(StepNumber::width, bits(s.types.base) / 8.0);
  set(StepNumber::input, bits(s.types.base) / 8.0);
  return n;
}

/// One walk over the lines.
class BlockLowering {
 public:
  BlockLowering(const BlockText& text, Step& s)
      : text_(text), s_(s), values_(text, numbers_of(s)), formats_{s.types, s.kept()}, entry_(s.last) {
    node_of_.reserve(text.lines.size());
  }

  void all() {
    for (const BlockLine& line : text_.lines) {
      if (values_.runs(line)) {
        wait(line);
        append(line);
      }
      node_of_.push_back(s_.last);
    }
  }

 private:
  int node(int line) const { return line < 0 ? entry_ : node_of_[static_cast<std::size_t>(line)]; }

  void wait(const BlockLine& line) {
    if (line.after.empty()) return;
    s_.last = node(line.after[0]);
    if (line.after.size() > 1) s_.join = node(line.after[1]);
  }

  [[noreturn]] void fail(const BlockLine& line, const std::string& what) const {
    throw BadInput("block '" + text_.name + "', operator '" + line.name->whole + "': " + what);
  }

  std::int64_t size(const BlockLine& line, std::size_t which, const char* key, double usual, double least) const {
    const double value = values_.size(line, which, usual);
    if (value == std::floor(value) && value >= least && value <= 1099511627776.0) {
      return static_cast<std::int64_t>(value);
    }
    fail(line, std::string("key '") + key + "': expected a whole number from " + format_exact(least) +
                   " to 2^40, found " + format_exact(value));
  }

  void append(const BlockLine& line) {
    const lowering::NodeTag tag{line.name, line.role};
    const auto rows = [&] { return size(line, 0, "rows", static_cast<double>(s_.tokens), 1); };
    switch (line.kind) {
      case BlockLine::Kind::op: return table_op(line, tag);
      case BlockLine::Kind::linear: return linear(line, tag, rows());
      case BlockLine::Kind::quantize: return s_.quantize(tag, rows(), size(line, 1, "cols", 0, 1), weights(line));
      case BlockLine::Kind::sum_over_ranks: return s_.all_reduce(tag, {line.other}, rows());
      case BlockLine::Kind::gather_context:
        return lowering::gather_context(s_, size(line, 1, "width", 0, 1), formats_.kept);
      case BlockLine::Kind::merge_context:
        return lowering::merge_context(s_, size(line, 2, "heads", 0, 1), size(line, 1, "width", 0, 1));
      case BlockLine::Kind::part: return line.part->lower(s_);
    }
  }

  Precision weights(const BlockLine& line) const { return block::product_precision(line, s_.types); }

  void linear(const BlockLine& line, const lowering::NodeTag& tag, std::int64_t rows) {
    const std::int64_t in = size(line, 1, "in", 0, 1), out = size(line, 2, "out", 0, 1);
    const bool bias = size(line, 4, "bias", 0, 0) != 0;
    if (line.other != nullptr) s_.quantize({line.other}, rows, in, weights(line));
    s_.gemm(tag, rows, out, in, weights(line), bias, size(line, 3, "copies", 1, 1));
  }

  void table_op(const BlockLine& line, const lowering::NodeTag& tag) {
    block::BadKey bad;
    const std::optional<Op> op = made(line, values_, formats_, bad);
    if (!op) {
      fail(line, "key '" + std::string(bad.key) + "': expected " + std::string(bad.expected) + ", found " +
                     format_exact(bad.value));
    }
    if (const char* complaint = too_large(*op)) fail(line, complaint);
    const auto* exchange = std::get_if<Collective>(&*op);
    if (exchange != nullptr && exchange->gpus == 1) return;  // a rank has nothing to exchange with itself
    // shares of several ranks are rounded up, and may not stand to one another as the whole does
    const char* broken = s_.tp() == 1 ? broken_relation(*op) : nullptr;
    if (broken != nullptr) fail(line, broken);
    s_.add(tag, *op, line.stream);
  }

  const BlockText& text_;
  Step& s_;
  const Values values_;
  const block::Formats formats_;
  const int entry_;
  std::vector<int> node_of_;
};

/// A name and those of its gradients in one piece of memory.
struct KeptName {
  std::string texts;
  lowering::NodeName name{};
};

std::unique_ptr<KeptName> keep(const std::string& name) {
  auto kept = std::make_unique<KeptName>();
  constexpr std::array<const char*, 10> kEnds{"",    ".dx", ".dw", ".db",        ".dq",
                                              ".dk", ".dp", ".dv", ".recompute", ".reverse"};
  std::array<std::size_t, kEnds.size()> begins{};
  kept->texts.reserve(kEnds.size() * (name.size() + 1) + 40);  // 40: more than all ends
  for (std::size_t i = 0; i < kEnds.size(); ++i) {
    begins.at(i) = kept->texts.size();
    kept->texts.append(name).append(kEnds.at(i)).push_back('\0');
  }
  const auto text = [&](std::size_t i) { return kept->texts.data() + begins.at(i); };
  kept->name = {text(0), text(1), text(2), text(3), text(4), text(5), text(6), text(7), text(8), text(9)};
  return kept;
}

}  // namespace

const lowering::NodeName* kept_node_name(const std::string& name) {
  static std::mutex mutex;
  static std::unordered_map<std::string, std::unique_ptr<KeptName>> all;
  const std::lock_guard lock(mutex);
  const auto found = all.find(name);
  if (found != all.end()) return &found->second->name;
  return &all.emplace(name, keep(name)).first->second->name;
}

void BlockSpec::lower(lowering::Step& step) const {
  if (step.tp() > 1 && !text->shared_by_ranks) {
    throw NotModelled("tp " + std::to_string(step.tp()) + ": block '" + text->name +
                      "' does not say how ranks share it: expected \"split\" on a linear, or tp in a shape");
  }
  BlockLowering(*text, step).all();
}

}  // namespace plumbline
