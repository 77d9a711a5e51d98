#include "model/report/ops_batch_row.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "arch/error.hpp"
#include "arch/printable.hpp"
#include "model/report/remarks.hpp"
#include "model/report/report.hpp"
#include "model/stacks/stack.hpp"
#include "ops/csv.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

constexpr std::array<double, 14> kPowersOfTen{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13};

void append_whole(std::string& out, std::int64_t value) {
  char text[24];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  static_cast<void>(error);  // 24 characters hold any 64-bit number
  out.append(text, end);
}

/// Decimals that leave seven significant digits to a value >= 1e-6.
int decimals_for(double size) {
  int decimals = 6;
  for (double limit = 10; size >= limit && decimals > 0; limit *= 10) --decimals;
  for (double limit = 1; size < limit && decimals < 13; limit /= 10) ++decimals;
  return decimals;
}

}  // namespace

void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) throw std::logic_error("figure is not finite");
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-6 || size >= 1e15)) {
    char text[40];
    const auto [end, error] = std::to_chars(text, text + sizeof text, value);
    static_cast<void>(error);
    out.append(text, end);
    return;
  }
  if (value < 0) out += '-';
  const int decimals = size == 0 || size == std::floor(size) ? 0 : decimals_for(size);
  const double scale = kPowersOfTen[static_cast<std::size_t>(decimals)];
  const std::int64_t scaled = std::llround(size * scale);
  const auto unit = static_cast<std::int64_t>(scale);
  append_whole(out, scaled / unit);
  std::int64_t rest = scaled % unit;
  if (rest == 0) return;
  char digits[16];
  int count = decimals;
  for (int i = decimals; i-- > 0; rest /= 10) digits[i] = static_cast<char>('0' + rest % 10);
  while (count > 0 && digits[count - 1] == '0') --count;
  out += '.';
  out.append(digits, static_cast<std::size_t>(count));
}

void append_figures(std::string& out, const OpPrediction& p) {
  append_number(out, p.time.in(units::us));
  out += ',';
  append_number(out, p.low.in(units::us));
  out += ',';
  append_number(out, p.high.in(units::us));
  out += ',';
  out += name(p.limiter);
  out += ',';
  append_number(out, p.flops.in(units::FLOP));
  out += ',';
  append_number(out, p.dram_bytes().in(units::B));
  out += ',';
  if (p.power) append_number(out, p.power->in(units::W));
  out += ',';
  if (p.energy) append_number(out, p.energy->in(units::J));
  out += ',';
  append_number(out, p.clock.in(units::MHz));
  out += ',';
  out += name(p.provenance);
  out += ',';
  append_number(out, kernel_time(p).in(units::us));
  out += ',';
}

void append_refusal(std::string& out, std::string_view reason) {
  out += kNoFigures;
  std::string line = message_line(reason);
  line.pop_back();  // its line feed
  append_csv_field(out, line);
}

namespace {

/// Launches of several kernels that leave data to each other, and what no launch of an SM moves: nobody says what is left of whose
/// operands in L2, and their providers price them as from memory.
struct IsPricedWarm {
  template <class Shape>
  bool operator()(const Shape&) const {
    return !OneOf<Shape, Moe, Recurrence, AttentionBackward, Collective, ExpertExchange, Transfer>::value;
  }

 private:
  template <class Shape, class... Kinds>
  using OneOf = std::disjunction<std::is_same<Shape, Kinds>...>;
};

}  // namespace

void check_warm(const Op& op, const PredictOptions& options) {
  if (!options.warm || std::visit(IsPricedWarm{}, op)) return;
  throw NotModelled("cache warm: not modelled yet of " + std::string(op_name(op)));
}

RowPredictor::RowPredictor(const Machine& machine, const PredictOptions& options)
    : machine_(machine), options_(options), attention_(attention_provider(machine.options().stack.attention)) {}

bool RowPredictor::over_cap() const { return outcome_ == Outcome::done && is_over_cap(machine_, prediction_.power); }

RowPredictor::Outcome RowPredictor::predict_row(std::string_view op, std::string_view dtype, std::string_view shape) {
  figures_.clear();
  std::string reason;
  Outcome outcome = Outcome::done;
  try {
    const Op question = parse_op(op, dtype, shape);
    check_warm(question, options_);
    predictor_.predict(question, machine_, prediction_, options_);
    append_figures(figures_, prediction_);
    return outcome;
  } catch (const Error& refused) {
    reason = refused.what();
    outcome = refused.code() == ExitCode::our_bug ? Outcome::bug : Outcome::refused;
  } catch (const std::logic_error& bug) {
    reason = std::string("internal error: ") + bug.what();
    outcome = Outcome::bug;
  }
  figures_.clear();
  append_refusal(figures_, reason);
  return outcome;
}

RowPredictor::Outcome RowPredictor::append(std::string_view op, std::string_view dtype, std::string_view shape,
                                           std::string& out) {
  const std::size_t size = op.size() + dtype.size() + shape.size() + 2;
  const std::string_view key(key_);
  const bool same = remembered_ && key.size() == size && key.ends_with(shape) && key.starts_with(op) &&
                    key[op.size()] == '\n' && key.substr(op.size() + 1, dtype.size()) == dtype &&
                    key[op.size() + 1 + dtype.size()] == '\n';
  if (!same) {
    remembered_ = false;
    outcome_ = predict_row(op, dtype, shape);
    key_.assign(op);
    key_ += '\n';
    key_ += dtype;
    key_ += '\n';
    key_ += shape;
    remembered_ = true;
  }
  out += figures_;
  return outcome_;
}

}  // namespace plumbline
