// Binary coding of what the server tells the judge: faults and window reports.
//
//   Writer out;
//   encode(out, report);
//   MC_ASSIGN_OR_RETURN(WindowReport same, decode_report(out.bytes()));
#pragma once

#include <string_view>

#include "vgpu/server/control.h"
#include "vgpu/server/protocol.h"

namespace musacoder::vgpu {

void encode(protocol::Writer& out, const Fault& fault);
void encode(protocol::Writer& out, const WindowReport& report);
Fault decode_fault(protocol::Reader& in);                       // check in.ok() afterwards
Result<WindowReport> decode_report(std::string_view bytes);     // kInternal when malformed

}  // namespace musacoder::vgpu
