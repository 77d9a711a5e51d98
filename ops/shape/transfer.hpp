#pragma once

#include "ops/shape/shape.hpp"

namespace plumbline {

enum class TransferKind { send_recv, h2d, d2h, d2d };
std::string_view name(TransferKind kind);

/// `bytes` from one memory to another: to another rank, to or from the host, within the device.
struct Transfer {
  TransferKind kind = TransferKind::d2d;
  std::int64_t bytes = 0;
  std::int64_t stride = 1;  ///< send_recv: the two are that many ranks apart
  bool both = false;        ///< h2d, d2h: as many bytes go the other way at the same time
  bool operator==(const Transfer&) const = default;
  static const Facts<Transfer>& facts();
};

}  // namespace plumbline
