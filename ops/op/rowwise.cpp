#include "ops/shape/rowwise.hpp"

#include <array>
#include <string>
#include <utility>

#include "arch/error.hpp"
#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto names_of_rows() {
  std::array<OperatorName, kRowwiseKinds> names{};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const RowwiseRow& row = kRowwiseRows[i];
    names[i] = {row.name, static_cast<int>(row.kind), row.ours, row.pattern};
  }
  return names;
}
constexpr auto kRowwiseNames = names_of_rows();
static_assert(in_order(kRowwiseNames));

double usual_output_of(const void* shape) {
  const auto& s = *static_cast<const Rowwise*>(shape);
  return static_cast<double>(usual_output(s.kind, s.input));
}
constexpr auto kRowwiseKeys = std::to_array<Key>({key<&Rowwise::rows>("rows"), key<&Rowwise::cols>("cols"),
                                                  optional_key<&Rowwise::residual>("residual"),
                                                  optional_key<&Rowwise::output>("out", usual_output_of)});

constexpr auto kRowwiseRelations = std::to_array<Relation<Rowwise>>(
    {{"key 'residual': only norms take it", [](const Rowwise& s) { return !s.residual || row_of(s.kind).residual; },
      [](Rowwise& s) { s.residual = false; }}});

Bytes bytes_of(const RowwiseTensors& t, const Rowwise& s, DType type) {
  const double rows = d(s.rows), cols = d(s.cols), n = rows * cols;
  return storage(type, t.whole * n + t.rows * rows) + storage(s.input, t.columns * cols) +
         byte(t.bytes * n + kFloatBytes * (t.floats * n + t.row_words * rows + t.column_words * cols));
}

Work work_of(const Rowwise& s) {
  const RowwiseRow& row = row_of(s.kind);
  const double rows = d(s.rows), n = rows * d(s.cols);
  Work w;
  w.math = s.input;
  w.fp32 = flop(row.math.element * n + row.math.row * rows);
  w.sfu = row.math.sfu_element * n + row.math.sfu_row * rows;
  w.read = bytes_of(row.read, s, s.input);
  RowwiseTensors written = row.write;
  if (s.kind == RowwiseKind::adamw && bits(s.output) >= 32) written.whole = 0;  // layers read the master weights
  w.write = bytes_of(written, s, s.output);
  if (s.residual) {
    w.fp32 += flop(n);
    w.read += storage(s.input, n);
    if (!is_norm_backward(s.kind)) w.write += storage(s.input, n);  // the sum
  }
  return w;
}

Volume volume_of(const Rowwise& s) { return {2 * product_of({s.rows, s.cols}), 0}; }

void set_rowwise_types(Rowwise& s, const Precision& given) {
  s.input = given.input;
  s.output = usual_output(s.kind, given.input);
}

/// By the rule in the kind's row. The fused loss has written its gradient in the forward pass. A product of two
/// activations has two gradients, each a product. An add that drops has the add of the two gradients that meet in it, and
/// the choice again.
void gradient_of(const Rowwise& s, NodeRole role, Gradient& out) {
  if (role == NodeRole::loss) return;
  const RowwiseGradient& rule = row_of(s.kind).gradient;
  Rowwise back = s;
  switch (rule.form) {
    case RowwiseGradient::Form::unstated:
      throw NotModelled("op '" + std::string(name(s.kind)) + "': expected one of a forward pass, found no gradient");
    case RowwiseGradient::Form::none: return;
    case RowwiseGradient::Form::same: break;
    case RowwiseGradient::Form::back: std::swap(back.input, back.output); break;
    case RowwiseGradient::Form::other:
      back.kind = rule.kind;
      back.residual = rule.residual && s.residual;
      if (rule.residual) back.output = s.input;
      break;
  }
  out.add(GradientPart::whole, back);
  if (role == NodeRole::product) out.add(GradientPart::whole, back);
  if (role != NodeRole::dropped) return;
  back.kind = RowwiseKind::dropout_backward;
  out.add(GradientPart::whole, back);
}

}  // namespace

const Facts<Rowwise>& Rowwise::facts() {
  static constexpr Facts<Rowwise> kFacts{
      .names = kRowwiseNames,
      .keys = kRowwiseKeys,
      .relations = kRowwiseRelations,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
      .set_types = set_rowwise_types,
  };
  return kFacts;
}

}  // namespace plumbline
