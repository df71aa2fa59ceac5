
#include "amp/doctor/commands.h"
#include "amp/doctor/report/page.h"
#include "core/error.h"
#include "core/version.h"
#include "io/console.h"
#include "io/file_ops.h"
#include "io/output_file.h"
#include "io/utc_time.h"

namespace binade::doctor {

int write_report(const std::string& run, const std::string& output) {
  const report::RunHistory history = report::read_history(run);
  const std::string html = report::page(history,
                                        fmt::format("Made {} by binade-doctor report, {}.", io::utc_now(), build_id()));
  if (!output.empty()) {
    io::write_output_file(output, io::bytes_of(html));
    io::print(output + "\n");
    return 0;
  }
  io::FileOps& ops = io::FileOps::real();
  const io::FileHandle folder = io::open_folder(ops, history.folder);
  const int error = io::write_file_atomically(ops, folder.get(), "report.html", io::bytes_of(html));
  check<StorageError>(error == 0, "{}/report.html: cannot be written: {}", run, io::error_text(error));
  io::print(run + "/report.html\n");
  return 0;
}

}  // namespace binade::doctor
