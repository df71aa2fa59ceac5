// binade-unet: trains, evaluates and applies a U-Net that segments images.
#include "examples/unet/unet_task.h"

int main(int argc, char** argv) {
  return binade::examples::run_task<binade::examples::UNetTask>(argc, argv, {binade::examples::add_predict});
}
