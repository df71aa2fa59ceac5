#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/derivatives/transposed.h"
#include "binade/core/ops/avg_pool2d.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/core/ops/upsample.h"

namespace binade::derivatives {
namespace {

constexpr const char* kOfMaximum =
    "use avg_pool2d or a convolution with a stride; windows that do not overlap are a reshape and max(x, axes)";

constexpr Entry kEntries[] = {
    {&ops::AvgPool2d::info, [](const RecordedCall& c) { return transposed<ops::AvgPool2d>(c); }},
    {&ops::Upsample::info, [](const RecordedCall& c) { return transposed<ops::Upsample>(c); }},
    {&ops::UpsampleBicubic::info, [](const RecordedCall& c) { return transposed<ops::UpsampleBicubic>(c); }},
    {&ops::MaxPool2d::info, nullptr, kOfMaximum},
    {&ops::MaxPool2dIndices::info, nullptr, kOfMaximum},
};

}  // namespace

std::span<const Entry> derivatives_of_image_ops() { return kEntries; }

}  // namespace binade::derivatives
