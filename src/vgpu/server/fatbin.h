// The container in which nvcc embeds PTX: `.nv_fatbin` of a shared object built with -code=compute_XX --compress-mode=none.
//
//   MC_ASSIGN_OR_RETURN(std::string_view ptx, find_ptx(bytes));
//
// Layout: a 16-byte header (u32 magic 0xBA55ED50, u16 version, u16 header bytes, u64 body bytes), then entries: u16 kind
// (1 PTX, 2 machine code), u16 version, u32 header bytes, u64 payload bytes, …, u64 flags at offset 40, then the payload.
#pragma once

#include <string_view>

#include "base/status.h"

namespace musacoder::vgpu {

// The PTX text of the entry with the highest target, without trailing NULs; a view into `bytes`. Plain PTX text
// (beginning with white space, a comment or ".version") is taken as it is. Every length is checked against the bytes at
// hand. kInvalidArgument: not a fat binary; kUnsupported: compressed, or machine code only.
Result<std::string_view> find_ptx(std::string_view bytes);

}  // namespace musacoder::vgpu
