#include "model/engine/formula.hpp"

namespace plumbline {
namespace {

/// a + (b + c) and a x (b x c) may be written without brackets; so may what stands on the left of a chain.
bool opens(Formula::Kind outer, const Formula& part, bool left) {
  if (part.kind != outer || part.parts.empty()) return false;
  if (outer == Formula::Kind::sum || outer == Formula::Kind::product) return true;
  return left;
}

}  // namespace

Formula joined(Formula::Kind kind, Formula a, Formula b) {
  Formula out;
  out.kind = kind;
  if (opens(kind, a, true)) out.parts = std::move(a.parts);
  else out.parts.push_back(std::move(a));
  if (opens(kind, b, false)) out.parts.insert(out.parts.end(), b.parts.begin(), b.parts.end());
  else out.parts.push_back(std::move(b));
  return out;
}

}  // namespace plumbline
