#include "ops/plan/row_menu.hpp"

#include <iterator>

namespace plumbline {

TileChoice choose(std::span<const RowTile> menu, std::int64_t cols, int least) {
  const std::int64_t spare = whole_rows(cols) ? 0 : kRowVector;  // a row of any alignment touches a vector more
  for (std::size_t i = 0; i < menu.size(); ++i) {
    const RowTile& h = menu[i];
    if (h.walks) continue;
    const std::int64_t holds = kRowVector * h.threads * h.vecs;
    const int entry = static_cast<int>(i);
    if (!h.clustered && least == 1 && cols + spare <= holds) return {entry, 1, h.threads == kRowWarp ? kRowsPerCta : 1};
    for (int cluster = std::max(2, least); h.clustered && cluster <= kMostRowCtas; cluster *= 2) {
      if (cols + spare * cluster <= holds * cluster) return {entry, cluster, 1};
    }
  }
  return {};
}

KernelPlan plan_of(const RowTile& tile, const TileChoice& choice, std::int64_t rows) {
  KernelPlan p;
  p.ctas = (rows + choice.rows - 1) / choice.rows * choice.cluster;
  p.threads = std::int64_t{tile.threads} * choice.rows;
  p.cluster = choice.cluster;
  return p;
}

RowChoice choose_row_tile(const Rowwise& s, std::int64_t sms) {
  constexpr std::int64_t kFewCtasAnSm = 4;  // up to which rows count as few
  const TileChoice few = choose(entries(RowMenu::few), s.cols);
  const std::int64_t most = few.cluster > 1 ? sms : kFewCtasAnSm * sms;
  if (few.entry >= 0 && s.rows * few.cluster <= most) return {RowMenu::few, few};
  const RowMenu menu = row_menu_of(s.kind);
  const TileChoice held = choose(entries(menu), s.cols);
  const int last = static_cast<int>(entries(menu).size()) - 1;
  const bool wide = held.entry < 0 || held.cluster > 1;
  // with a row for every SM, the bytes in flight are enough and nobody has to wait for a cluster
  if (entries(menu).back().walks && wide && s.rows >= sms) return {menu, {last, 1, 1}};
  return {menu, held};
}

TileChoice choose_topk(std::int64_t rows, std::int64_t cols, std::int64_t k) {
  constexpr int kFirstCta = 3;                 // the first entry that is not a warp a row
  constexpr std::int64_t kFewRows = 128;       // below: less than a row an SM, so a row is spread over a cluster
  constexpr std::int64_t kSpreadCols = 16384;  // ... if it has this many columns
  // a warp takes k trips over its elements, which pays while both are small
  const bool fits_warp = k <= 16 || (cols <= 256 && k <= 32);
  const TileChoice c = choose(kTopKMenu, cols, rows < kFewRows && cols >= kSpreadCols ? kMostRowCtas : 1);
  if (c.entry >= 0 && kTopKMenu[c.entry].threads == kRowWarp && !fits_warp) return {kFirstCta, 1, 1};
  return c;
}

ChainTile chain_tile(std::int64_t cols) {
  const auto fits = [&](ChainTile h) { return cols <= kRowVector * h.lanes * h.groups; };
  const auto* found = std::find_if(std::begin(kChainMenu), std::end(kChainMenu), fits);
  return found == std::end(kChainMenu) ? ChainTile{} : *found;
}

std::int64_t chain_rows_each(bool forward, std::int64_t rows, int lanes, std::int64_t sms) {
  if (!forward && lanes != 256 && lanes != 512) return 1;  // kChainPrefetches
  constexpr std::int64_t kThreadsAnSm = 1024, kTurns = 4, kMost = 8;
  const std::int64_t slots = sms * kThreadsAnSm / lanes;
  return std::clamp<std::int64_t>(rows / (slots * kTurns), 1, kMost);
}

std::int64_t chain_ctas(std::int64_t rows, int lanes, std::int64_t each) {
  const std::int64_t a_cta = chain_threads(lanes) / lanes * each;
  return (rows + a_cta - 1) / a_cta;
}

}  // namespace plumbline
