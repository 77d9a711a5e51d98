// What follows from a block's operators: weights, what is kept, and what is alive.
#include "ops/block/block.hpp"

#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "ops/as_double.hpp"
#include "ops/block/evaluate.hpp"
#include "ops/mixer/attention_memory.hpp"

namespace plumbline {
namespace {

using block::Values;

/// Where shapes stand for all of the model: one rank's share is all of it.
StepNumbers whole_model(std::int64_t hidden, std::int64_t tensor = 1) {
  StepNumbers n{};
  for (const StepNumber one :
       {StepNumber::tokens, StepNumber::sequences, StepNumber::fresh, StepNumber::context, StepNumber::source,
        StepNumber::ranks_of_context, StepNumber::cache, StepNumber::typical, StepNumber::keys}) {
    number_of(n, one) = 1;
  }
  number_of(n, StepNumber::hidden) = d(hidden);
  number_of(n, StepNumber::tensor) = d(tensor);
  return n;
}

/// The width that the file of the block has, where there is one: what is kept may go by it.
std::int64_t own_width(const BlockText& text) {
  const auto& names = text.scope.names();
  const auto at = std::find(names.begin(), names.end(), name(StepNumber::hidden));
  return at == names.end()
             ? 0
             : static_cast<std::int64_t>(text.scope.values()[static_cast<std::size_t>(at - names.begin())]);
}

/// What a block says of itself, which must be an amount.
double amount(const BlockText& text, const char* what, double value) {
  constexpr double kMost = 1e30;
  if (value >= 0 && value <= kMost) return value;
  throw BadInput("block '" + text.name + "': " + what + ": expected a number from 0, found " + format_exact(value));
}

/// Weights of one operator; of routed experts `idle` are those that a token does not use.
struct LineWeights {
  double matrices = 0, vectors = 0, experts = 0, idle = 0;
};

double key_value(const BlockLine& line, const Values& values, std::string_view key) {
  for (const BlockLine::KeyValue& each : line.keys) {
    if (each.key->name == key && each.value >= 0) return values[each.value];
  }
  return 0;
}

LineWeights weights_of(const BlockLine& line, const Values& values) {
  LineWeights w;
  const auto stated = [&](double usual) { return line.weights >= 0 ? values[line.weights] : usual; };
  const auto key = [&](std::string_view name) { return key_value(line, values, name); };
  switch (line.weights_of) {
    case WeightsOf::nothing: break;
    case WeightsOf::linear: {
      const double copies = values.size(line, 3, 1), out = values.size(line, 2, 0);
      w.matrices = stated(copies * values.size(line, 1, 0) * out);
      if (values.size(line, 4, 0) != 0) w.vectors = copies * out;
      break;
    }
    case WeightsOf::experts: {
      const double experts = key("E");
      w.experts = w.matrices = stated(experts * key("N") * key("K"));
      w.idle = experts > 0 ? w.experts * (1 - std::min(key("topk"), experts) / experts) : 0;
      break;
    }
    case WeightsOf::norm: w.vectors = stated(key("cols")); break;
    case WeightsOf::norm_and_bias: w.vectors = stated(2 * key("cols")); break;
    case WeightsOf::convolution: w.vectors = stated(key("channels") * key("width")); break;
    case WeightsOf::product: w.matrices = stated(0); break;
    case WeightsOf::other: w.vectors = stated(0); break;
  }
  return w;
}

/// `add(line, weights)` for all lines that run in the state that parameters are counted in.
template <class Add>
void each_weights(const BlockText& text, const Values& values, Add add) {
  for (const BlockLine& line : text.lines) {
    if (values.runs(line)) add(line, weights_of(line, values));
  }
}

/// Tokens at which the widths of what operators write are looked at; activations go with them.
constexpr double kSampleTokens = 64;

/// Elements that each line writes for kSampleTokens tokens of one sequence; 0 where it does not run.
std::vector<double> written(const BlockText& text, const MixerLoad& load) {
  StepNumbers n = whole_model(static_cast<std::int64_t>(load.hidden), static_cast<std::int64_t>(load.tensor));
  for (const StepNumber each : {StepNumber::tokens, StepNumber::fresh, StepNumber::context, StepNumber::keys}) {
    number_of(n, each) = kSampleTokens;
  }
  number_of(n, StepNumber::typical) = load.flash ? 1 : 0;
  number_of(n, StepNumber::eager) = number_of(n, StepNumber::scores) = load.flash ? 0 : 1;
  const Values values(text, n);
  std::vector<double> all;
  all.reserve(text.lines.size());
  for (const BlockLine& line : text.lines) {
    double elements = 0;
    if (values.runs(line)) {
      if (line.kind == BlockLine::Kind::linear) {
        elements = values.size(line, 0, kSampleTokens) * values.size(line, 2, 0) * values.size(line, 3, 1);
      } else if (line.kind == BlockLine::Kind::op) {
        elements = block::written_elements(line, values);
      } else if (line.kind == BlockLine::Kind::part) {
        MixerLoad part = load;
        part.tokens = kSampleTokens;
        elements = line.part->live(part);
      }
    }
    all.push_back(elements);
  }
  return all;
}

/// The last line that reads what each line wrote.
std::vector<std::size_t> last_readers(const BlockText& text) {
  std::vector<std::size_t> last(text.lines.size());
  for (std::size_t i = 0; i < last.size(); ++i) last[i] = i;
  for (std::size_t i = 0; i < last.size(); ++i) {
    if (text.lines[i].after.empty() && i > 0) last[i - 1] = i;
    for (const int before : text.lines[i].after) {
      if (before >= 0) last[static_cast<std::size_t>(before)] = i;
    }
  }
  return last;
}

double live_by_operators(const BlockText& text, const MixerLoad& load) {
  const std::vector<double> all = written(text, load);
  const std::vector<std::size_t> last = last_readers(text);
  std::vector<double> freed(last.size() + 1, 0.0);
  double alive = 0, most = 0;
  for (std::size_t i = 0; i < last.size(); ++i) {
    alive += all[i];
    freed[last[i]] += all[i];
    most = std::max(most, alive);
    alive -= freed[i];
  }
  return load.tokens * (load.hidden + most / kSampleTokens);
}

StepNumbers of_load(const MixerLoad& load) {
  StepNumbers n = whole_model(static_cast<std::int64_t>(load.hidden), static_cast<std::int64_t>(load.tensor));
  number_of(n, StepNumber::tokens) = load.tokens;
  number_of(n, StepNumber::keys) = load.kv_tokens;
  number_of(n, StepNumber::context) = load.kv_len;
  number_of(n, StepNumber::width) = load.element;
  number_of(n, StepNumber::input) = load.input > 0 ? load.input : load.element;
  number_of(n, StepNumber::scores) = load.flash ? 0 : 1;
  number_of(n, StepNumber::dropout) = load.dropout ? 1 : 0;
  number_of(n, StepNumber::decode) = load.decode ? 1 : 0;
  number_of(n, StepNumber::fused) = load.fused ? 1 : 0;
  return n;
}

}  // namespace

ParamCount BlockSpec::params(std::int64_t hidden) const {
  const Values values(*text, whole_model(hidden));
  ParamCount count;
  each_weights(*text, values, [&](const BlockLine& line, const LineWeights& w) {
    count += {w.matrices, w.vectors};
    if (line.kind == BlockLine::Kind::part) count += line.part->params(hidden);
  });
  if (text->matrices >= 0) count.matrices = values[text->matrices];
  if (text->vectors >= 0) count.vectors = values[text->vectors];
  amount(*text, "weights", count.matrices);
  amount(*text, "weights", count.vectors);
  return count;
}

double BlockSpec::idle_params(std::int64_t hidden) const {
  double idle = 0;
  each_weights(*text, Values(*text, whole_model(hidden)), [&](const BlockLine& line, const LineWeights& w) {
    idle += line.kind == BlockLine::Kind::part ? line.part->idle_params(hidden) : w.idle;
  });
  return idle;
}

double BlockSpec::expert_params(std::int64_t hidden) const {
  double experts = 0;
  each_weights(*text, Values(*text, whole_model(hidden)),
               [&](const BlockLine&, const LineWeights& w) { experts += w.experts; });
  return experts;
}

/// What does not get smaller with two ranks.
double BlockSpec::whole_params(std::int64_t hidden) const {
  if (!text->shared_by_ranks || text->matrices >= 0) return 0;
  const Values one(*text, whole_model(hidden)), two(*text, whole_model(hidden, 2));
  double whole = 0;
  for (const BlockLine& line : text->lines) {
    if (!one.runs(line) || !two.runs(line)) continue;
    const double all = weights_of(line, one).matrices;
    if (all > 0 && all == weights_of(line, two).matrices) whole += all;
  }
  return whole;
}

Bytes BlockSpec::cache(const CacheQuery& query) const {
  StepNumbers n = whole_model(own_width(*text), query.tensor);
  number_of(n, StepNumber::context) = query.tokens;
  const Values values(*text, n, block::Part::cache);
  Bytes all;
  for (const BlockCache& each : text->cache) {
    const DType type = each.type == kCacheType  ? query.kv
                       : each.type == kBaseType ? query.base
                                                : static_cast<DType>(each.type);
    all += storage(type, amount(*text, "cache", values[each.elements]));
  }
  for (const std::size_t part : text->parts) all += text->lines[part].part->cache(query);
  return all;
}

double BlockSpec::kv_elements() const {
  double elements = 0;
  StepNumbers n = whole_model(own_width(*text));
  for (const double sign : {-1.0, 1.0}) {
    number_of(n, StepNumber::context) = sign < 0 ? 1 : 2;
    const Values values(*text, n, block::Part::cache);
    for (const BlockCache& each : text->cache) elements += sign * values[each.elements];
  }
  for (const std::size_t part : text->parts) elements += text->lines[part].part->kv_elements();
  return amount(*text, "cache of one more token", elements);
}

double BlockSpec::live(const MixerLoad& load) const {
  if (text->live < 0) return live_by_operators(*text, load);
  return amount(*text, "live", Values(*text, of_load(load), block::Part::memory)[text->live]);
}

double BlockSpec::stored(const MixerLoad& load) const {
  if (text->stored >= 0) {
    return amount(*text, "stored", Values(*text, of_load(load), block::Part::memory)[text->stored]);
  }
  double elements = 0;
  for (const double each : written(*text, load)) elements += each;
  return load.tokens * load.element * (load.hidden + elements / kSampleTokens);
}

Bytes BlockSpec::partials(double sequences, std::int64_t tensor) const {
  StepNumbers n = whole_model(own_width(*text), tensor);
  number_of(n, StepNumber::decode) = 1;
  Bytes most;
  if (!text->decode_attention.empty()) {
    const Values values(*text, n, block::Part::memory);
    for (const std::size_t attention : text->decode_attention) {
      const BlockLine& line = text->lines[attention];
      if (!values.runs(line)) continue;
      const auto first = [&](std::initializer_list<std::string_view> keys) {
        double value = 0;
        for (const std::string_view key : keys) value = value > 0 ? value : key_value(line, values, key);
        return value;
      };
      const auto width = static_cast<std::int64_t>(first({"Dv", "D", "Dc"}));
      most = std::max(most, split_partials(sequences, first({"Hq", "H"}), width));
    }
  }
  for (const std::size_t part : text->parts) {
    most = std::max(most, text->lines[part].part->partials(sequences, tensor));
  }
  return most;
}

SegmentNames BlockSpec::segment() const {
  if (text->segment.empty()) return {};
  const char* kept = kept_node_name(text->segment)->whole;
  return {kept, kept};
}

}  // namespace plumbline
