#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

enum class TransferKind { send_recv, h2d, d2h, d2d, p2p_copy };
std::string_view name(TransferKind kind);

/// `bytes` from one memory to another: to another rank, to or from the host, within the device, from another GPU's memory by
/// a copy engine. p2p_copy is of a rank among others that do the same: as many bytes are read of its memory meanwhile.
struct Transfer {
  TransferKind kind = TransferKind::d2d;
  std::int64_t bytes = 0;
  std::int64_t stride = 1;  ///< send_recv, p2p_copy: the two are that many ranks apart
  bool both = false;        ///< h2d, d2h: as many bytes go the other way at the same time
  bool operator==(const Transfer&) const = default;
  static const Facts<Transfer>& facts();
};

}  // namespace plumbline
