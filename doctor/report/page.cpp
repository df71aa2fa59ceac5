#include "binade/doctor/report/page.h"

#include <filesystem>

#include "binade/doctor/report/sections.h"
#include "doctor/page_assets.h"

namespace binade::doctor::report {

std::string page(const RunHistory& history, const std::string& made) {
  const Markup body = head_section(history) + findings_section(history) + charts_section(history) +
                      headroom_section(history) + events_section(history) + incidents_section(history) +
                      attempts_section(history) + samples_section(history) + checkpoints_section(history) +
                      settings_section(history) + problems_section(history) + element("footer", text(made));
  const std::string name = std::filesystem::path(history.folder).filename().string();
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>" +
         element("title", text(name + " – training run")).html() + "<style>" + kStyle + "</style></head>\n" +
         element("body", element("main", body)).html() + "<script>" + kScript + "</script></html>\n";
}

}  // namespace binade::doctor::report
