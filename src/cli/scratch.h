// One scratch folder for all that a command and its lanes put into temporary files, so that what
// a killed process left behind is found and removed by the next one.
//
//   MC_ASSIGN_OR_RETURN(base::TempDir scratch, own_scratch());   // before any thread: it sets
//   $MUSACODER_TMPDIR
//
// Removes the scratch folders of processes that are gone: only folders of this user, on this host and in this
// process namespace. Folders whose owner is not told go a minute after they were made. Errors: those of
// TempDir::create.
#pragma once

#include "base/files.h"

namespace musacoder::cli {

Result<base::TempDir> own_scratch();

}  // namespace musacoder::cli
