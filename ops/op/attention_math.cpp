#include "ops/op/attention_math.hpp"

#include "ops/op/counting.hpp"

namespace plumbline {

using namespace counting;

Work attention_math(double pairs, double rows, double qk, double v, DType type) {
  Work w;
  w.math = type;
  w.tensor = flop(2 * pairs * (qk + v));
  w.fp32 = flop(4 * pairs + rows * v);
  w.sfu = pairs + rows;
  return w;
}

DType attention_output(DType type) { return bits(type) < 16 ? DType::bf16 : type; }

void add_rotation(Work& w, double elements, double tokens, double dim) {
  w.fp32 += flop(3 * elements + tokens * dim / 2);
  w.sfu += tokens * dim;
  w.read += byte(kFloatBytes * dim / 2);  // frequencies
}

}  // namespace plumbline
