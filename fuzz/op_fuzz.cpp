// Operators drawn from the table by arbitrary bytes: whatever the keys hold, a shape is refused in one line or has work
// that is finite, is written and read back the same, and has a gradient or says that it has none.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "arch/error.hpp"
#include "ops/facts/work.hpp"
#include "ops/table/table.hpp"
#include "ops/table/text.hpp"

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  std::uint64_t next(int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8U | (at_ < size_ ? data_[at_++] : 0U);
    return value;
  }
  std::uint64_t below(std::uint64_t n) { return next(2) % n; }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

double value_of(const plumbline::Key& key, Input& from) {
  switch (key.type) {
    case plumbline::KeyType::flag: return static_cast<double>(from.below(2));
    case plumbline::KeyType::percent: return static_cast<double>(from.below(101));
    case plumbline::KeyType::dtype: return static_cast<double>(from.below(plumbline::kDTypeCount));
    case plumbline::KeyType::recurrence: return static_cast<double>(from.below(3));
    case plumbline::KeyType::scaling: return static_cast<double>(from.below(3));
    case plumbline::KeyType::layout: return static_cast<double>(from.below(2));
    default: return static_cast<double>(1 + from.next(1 + static_cast<int>(from.below(3))));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input from(data, size);
  const auto table = plumbline::operators();
  const plumbline::Operator& which = table[from.below(table.size())];
  plumbline::Op op = which.make(which.kind, {});
  for (const plumbline::Key& key : which.keys) key.set(plumbline::shape_address(op), value_of(key, from));
  if (from.below(2) == 1) plumbline::mend(op);
  plumbline::Op read;
  try {
    read = plumbline::parse_op(which.name, plumbline::dtype_text(op), plumbline::shape_text(op));
  } catch (const plumbline::BadInput& e) {
    expect(std::string_view(e.what()).find('\n') == std::string_view::npos);
    return 0;
  }
  expect(read == op && plumbline::broken_relation(op) == nullptr);
  const plumbline::Work work = plumbline::work(op);
  expect(std::isfinite(work.flops().in(plumbline::units::FLOP)) && work.bytes() > plumbline::Bytes());
  try {
    for (const auto& part : plumbline::gradient_of(op, plumbline::NodeRole::plain)) {
      expect(plumbline::work(part.op).bytes() > plumbline::Bytes());
    }
  } catch (const plumbline::NotModelled&) {
    return 0;
  }
  return 0;
}
