#include "ops/shape/custom.hpp"

#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kCustomNames = std::to_array<OperatorName>({{"custom", 0, true, Pattern::none}});

/// A key of a member that has a unit: its number in FLOP or bytes.
template <auto kMember>
constexpr Key amount(std::string_view name) {
  using Value = std::remove_cvref_t<decltype(std::declval<CustomOp&>().*kMember)>;
  Key k{name, KeyType::amount, false};
  k.get = [](const void* shape) {
    const Value value = static_cast<const CustomOp*>(shape)->*kMember;
    if constexpr (std::is_same_v<Value, double>) return value;
    else return value.in(UnitSource::one<Value>());
  };
  k.set = [](void* shape, double value) {
    if constexpr (std::is_same_v<Value, double>) static_cast<CustomOp*>(shape)->*kMember = value;
    else static_cast<CustomOp*>(shape)->*kMember = value * UnitSource::one<Value>();
  };
  k.usual = [](const void*) { return 0.0; };
  return k;
}

constexpr auto kCustomKeys = std::to_array<Key>({
    amount<&CustomOp::tensor>("tensor"),
    amount<&CustomOp::fp32>("fp32"),
    amount<&CustomOp::sfu>("sfu"),
    amount<&CustomOp::instructions>("instructions"),
    amount<&CustomOp::executed>("executed"),
    amount<&CustomOp::smem>("smem"),
    amount<&CustomOp::l2>("l2"),
    amount<&CustomOp::read>("read"),
    amount<&CustomOp::write>("write"),
    optional_count<&CustomOp::chain>("chain"),
    optional_count<&CustomOp::dependent>("dependent"),
    optional_count<&CustomOp::ctas>("ctas"),
    optional_key<&CustomOp::threads>("threads"),
    optional_key<&CustomOp::registers>("registers"),
    amount<&CustomOp::block_smem>("block_smem"),
    amount<&CustomOp::in_flight>("in_flight"),
});

constexpr auto kCustomRelations = std::to_array<Relation<CustomOp>>({
    {"expected work: one of tensor, fp32, sfu, instructions, smem, l2, read, write, chain, dependent above 0",
     [](const CustomOp& s) {
       return s.tensor > Flops{} || s.fp32 > Flops{} || s.sfu > 0 || s.instructions > 0 || s.smem > Bytes{} ||
              s.l2 > Bytes{} || s.read > Bytes{} || s.write > Bytes{} || s.chain > 0 || s.dependent > 0;
     },
     [](CustomOp& s) { s.write = 1.0 * units::B; }},
});

Work work_of(const CustomOp& s) {
  Work w;
  w.math = s.dtype;
  w.tensor = s.tensor;
  w.fp32 = s.fp32;
  w.sfu = s.sfu;
  w.read = s.read;
  w.write = s.write;
  return w;
}

Volume volume_of(const CustomOp& s) { return {(s.read + s.write).in(units::B), 0}; }

}  // namespace

const Facts<CustomOp>& CustomOp::facts() {
  static constexpr Facts<CustomOp> kFacts{
      .names = kCustomNames,
      .keys = kCustomKeys,
      .relations = kCustomRelations,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline
