#include "validate/fit/power_search.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <random>

namespace plumbline::power_search_test {
namespace {

TEST(SimplexSearch, FindsTheBottomOfABowl) {
  const auto bowl = [](const std::vector<double>& x) {
    return std::pow(x[0] - 0.7, 2) + 10 * std::pow(x[1] + 0.3, 2) + 2;
  };
  const std::vector<double> found = simplex_search(bowl, {0, 0}, 0.2, 400);
  EXPECT_NEAR(found[0], 0.7, 1e-3);
  EXPECT_NEAR(found[1], -0.3, 1e-3);
}

/// Rosenbrock's valley (1960): the way to (1, 1) bends.
TEST(SimplexSearch, FollowsABentValley) {
  const auto valley = [](const std::vector<double>& x) {
    return 100 * std::pow(x[1] - x[0] * x[0], 2) + std::pow(1 - x[0], 2);
  };
  const std::vector<double> found = simplex_search(valley, {-0.5, 0.5}, 0.2, 4000);
  EXPECT_NEAR(found[0], 1, 0.01);
  EXPECT_NEAR(found[1], 1, 0.02);
}

TEST(SimplexSearch, StaysWithinItsEvaluationsAndNeverLoses) {
  int asked = 0;
  const auto steps = [&](const std::vector<double>& x) {
    ++asked;
    return std::floor(5 * std::abs(x[0])) + std::floor(5 * std::abs(x[1] - 2));
  };
  const std::vector<double> start{3, 3};
  const double before = steps(start);
  asked = 0;
  const std::vector<double> found = simplex_search(steps, start, 0.3, 100);
  EXPECT_LE(asked, 100 * 4);  // a step that shrinks the simplex asks twice and for both other corners
  EXPECT_LE(steps(found), before);
}

TEST(NonNegativeLeastSquares, GivesTheExactAnswerWhereThatIsPositive) {
  // columns (1, 0, 1) and (0, 1, 1); b = 2 x first + 3 x second
  const std::vector<double> x = non_negative_least_squares({1, 0, 1, 0, 1, 1}, {2, 3, 5});
  EXPECT_NEAR(x[0], 2, 1e-9);
  EXPECT_NEAR(x[1], 3, 1e-9);
}

TEST(NonNegativeLeastSquares, ANegativeAnswerIsZeroAndTheRestIsFittedAgain) {
  // b = 2 x first - 1 x second: without the second, the first is <a, b> / <a, a> = 3 / 2
  const std::vector<double> x = non_negative_least_squares({1, 0, 1, 0, 1, 1}, {2, -1, 1});
  EXPECT_NEAR(x[0], 1.5, 1e-9);
  EXPECT_EQ(x[1], 0);
}

TEST(NonNegativeLeastSquares, ScaleOfAColumnDoesNotMatter) {
  const std::vector<double> x = non_negative_least_squares({1e-12, 0, 1e-12, 0, 1e9, 1e9}, {2, 3, 5});
  EXPECT_NEAR(x[0] * 1e-12, 2, 1e-6);
  EXPECT_NEAR(x[1] * 1e9, 3, 1e-6);
}

/// The conditions of Karush, Kuhn and Tucker: no answer is negative, no gradient points to where it could go, and where
/// the answer is not zero the gradient is.
RC_GTEST_PROP(NonNegativeLeastSquares, HasNoWayDown, (unsigned seed)) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  const std::size_t rows = 8, columns = 4;
  std::vector<double> a(rows * columns), b(rows);
  for (double& v : a) v = number(random);
  for (double& v : b) v = number(random);
  const std::vector<double> x = non_negative_least_squares(a, b);
  for (std::size_t j = 0; j < columns; ++j) {
    double gradient = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      double residual = b[i];
      for (std::size_t k = 0; k < columns; ++k) residual -= a[k * rows + i] * x[k];
      gradient += a[j * rows + i] * residual;
    }
    RC_ASSERT(x[j] >= 0);
    RC_ASSERT(gradient < 1e-6);
    if (x[j] > 1e-9) RC_ASSERT(std::abs(gradient) < 1e-6);
  }
}

}  // namespace
}  // namespace plumbline::power_search_test
