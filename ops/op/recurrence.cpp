#include "ops/shape/recurrence.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kRecurrenceNames = std::to_array<OperatorName>({{"recurrence", 0, true, Pattern::none}});
constexpr auto kRecurrenceKeys = std::to_array<Key>(
    {key<&Recurrence::kind>("kind"), key<&Recurrence::batch>("B"), key<&Recurrence::seq>("S"),
     key<&Recurrence::heads>("H"), key<&Recurrence::head_dim>("D"), key<&Recurrence::state>("state"),
     optional_key<&Recurrence::groups>("groups"), optional_key<&Recurrence::state_dtype>("state_dtype"),
     optional_key<&Recurrence::carry>("carry"), optional_key<&Recurrence::channel_decay>("channel_decay"),
     optional_key<&Recurrence::chunk>("chunk")});

constexpr auto kRecurrenceRelations = std::to_array<Relation<Recurrence>>(
    {{"key 'H': expected a multiple of groups", [](const Recurrence& s) { return s.heads % s.groups == 0; },
      [](Recurrence& s) { s.heads += s.groups - s.heads % s.groups; }},
     {"key 'channel_decay': expected kind=gated_delta_net",
      [](const Recurrence& s) { return !s.channel_decay || s.kind == RecurrentKind::gated_delta_net; },
      [](Recurrence& s) { s.channel_decay = false; }}});

/// One step of one head, P = head_dim, N = state (per channel and state element for mamba1). Inputs after softplus and
/// normalisation. A and D are fp32. A state that is carried is read at the start and written at the end.
///   mamba1: a = exp(dt_p A_pn); h = a h + (dt_p x_p) b_n; y_p = sum h c_n + D_p x_p      (Gu, Dao 2023, alg. 2)
///   mamba2: the same with one dt, A and D a head                                         (Dao, Gu 2024, eq. 1)
///   gated_delta_net: S = e^g S; u = beta (v - S k); S += k u^T; y = S q                  (Yang et al. 2024, eq. 10)
/// For more than one token, mamba2 and the delta rule have a chunked form made of matrix products: their arithmetic on
/// the state counts as tensor work then, and as fp32 otherwise (decode, and mamba1, which has no such form).
Work work_of(const Recurrence& s) {
  const double steps = d(s.batch) * d(s.seq), heads = d(s.heads), p = d(s.head_dim), n = d(s.state);
  const double head_steps = steps * heads, shared = steps * d(s.groups) * n;  // shared: one of b, c (k, q)
  double state_flops = 5 * p * n, other = 3 * p + 1, sfu = 1, scalars = head_steps, params = 2 * heads;
  if (s.kind == RecurrentKind::mamba1) {
    other = 3 * p + p * n;
    sfu = p * n;
    scalars = head_steps * p;
    params = heads * p * (n + 1);
  } else if (s.kind == RecurrentKind::gated_delta_net) {
    state_flops = 7 * p * n;
    other = 2 * p;
    scalars = (s.channel_decay ? n + 1 : 2) * head_steps;  // g, beta
    if (s.channel_decay) sfu = n;
    params = 0;
  }
  const bool matrix_form = s.seq > 1 && s.kind != RecurrentKind::mamba1;
  const Bytes states = storage(s.state_dtype, s.carry ? d(s.batch) * heads * p * n : 0);
  Work w;
  w.math = s.dtype;
  (matrix_form ? w.tensor : w.fp32) = flop(head_steps * state_flops);
  w.fp32 += flop(head_steps * other);
  w.sfu = head_steps * sfu;
  w.read = storage(s.dtype, head_steps * p + scalars + 2 * shared) + byte(kFloatBytes * params) + states;
  w.write = storage(s.dtype, head_steps * p) + states;
  return w;
}

Volume volume_of(const Recurrence& s) {
  const double per_head = product_of({s.batch, s.heads, s.head_dim, s.state});
  return {std::max(per_head, product_of({s.batch, s.seq, s.heads, s.head_dim + s.state})), per_head * d(s.seq)};
}

/// The states are computed again, then scanned in reverse.
void gradient_of(const Recurrence& s, NodeRole, Gradient& out) {
  out.add(GradientPart::recompute, s);
  out.add(GradientPart::reverse, s);
}

}  // namespace

const Facts<Recurrence>& Recurrence::facts() {
  static constexpr Facts<Recurrence> kFacts{
      .names = kRecurrenceNames,
      .keys = kRecurrenceKeys,
      .relations = kRecurrenceRelations,
      .work = work_of,
      .volume = volume_of,
      .gradient = gradient_of,
  };
  return kFacts;
}

std::string_view name(RecurrentKind kind) {
  switch (kind) {
    case RecurrentKind::mamba1: return "mamba1";
    case RecurrentKind::mamba2: return "mamba2";
    case RecurrentKind::gated_delta_net: return "gated_delta_net";
  }
  return "unknown recurrence";
}

}  // namespace plumbline
