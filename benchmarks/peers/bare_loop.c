// SPDX-License-Identifier: Apache-2.0
// Peer of bench_control_loop.py, the physical floor of its loop: takes the serialized references and
// joint states, and publishes the last reference as joint_command, at absolute deadlines, by rcl.
// Called by bare_loop.py; writes the start times of its ticks [ns] to a file at SIGINT or SIGTERM.
#include <rcl/rcl.h>
#include <rcutils/allocator.h>
#include <sensor_msgs/msg/joint_state.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <time.h>

#define NS 1000000000LL
#define DO(call) do { if ((call) != RCL_RET_OK) { fprintf(stderr, "%s\n", #call); return 1; } } while (0)

static volatile sig_atomic_t ended = 0;
static void end(int number) { (void)number; ended = 1; }

int bare_loop(double rate, const char *path) {
  const rosidl_message_type_support_t *type = ROSIDL_GET_MSG_TYPE_SUPPORT(sensor_msgs, msg, JointState);
  rcl_allocator_t allocator = rcl_get_default_allocator();
  rcl_init_options_t options = rcl_get_zero_initialized_init_options();
  rcl_context_t context = rcl_get_zero_initialized_context();
  rcl_node_t node = rcl_get_zero_initialized_node();
  rcl_node_options_t node_options = rcl_node_get_default_options();
  rcl_subscription_t inputs[2] = {rcl_get_zero_initialized_subscription(), rcl_get_zero_initialized_subscription()};
  rcl_publisher_t output = rcl_get_zero_initialized_publisher();
  const char *topics[2] = {"joint_trajectory_controller/reference", "joint_states"};
  DO(rcl_init_options_init(&options, allocator));
  DO(rcl_init(0, NULL, &options, &context));
  DO(rcl_node_init(&node, "bare_loop", "", &context, &node_options));
  for (int i = 0; i < 2; i++) {
    rcl_subscription_options_t quality = rcl_subscription_get_default_options();
    quality.qos.reliability = RMW_QOS_POLICY_RELIABILITY_BEST_EFFORT;
    DO(rcl_subscription_init(&inputs[i], &node, type, topics[i], &quality));
  }
  rcl_publisher_options_t quality = rcl_publisher_get_default_options();
  DO(rcl_publisher_init(&output, &node, type, "joint_command", &quality));
  rcl_serialized_message_t message[2] = {rmw_get_zero_initialized_serialized_message(), rmw_get_zero_initialized_serialized_message()};
  for (int i = 0; i < 2; i++) DO(rmw_serialized_message_init(&message[i], 1024, &allocator));
  signal(SIGINT, end);
  signal(SIGTERM, end);
  printf("configured in 0 s\n");
  fflush(stdout);
  size_t count = 0, room = 1 << 22;
  long long *ticks = malloc(room * sizeof(long long)), period = (long long)(NS / rate), deadline;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  deadline = now.tv_sec * NS + now.tv_nsec;
  for (int known = 0; !ended; deadline += period) {
    struct timespec at = {deadline / NS, deadline % NS};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (count < room) ticks[count++] = now.tv_sec * NS + now.tv_nsec;
    while (rcl_take_serialized_message(&inputs[0], &message[0], NULL, NULL) == RCL_RET_OK) known = 1;
    while (rcl_take_serialized_message(&inputs[1], &message[1], NULL, NULL) == RCL_RET_OK) {}
    if (known && rcl_publish_serialized_message(&output, &message[0], NULL) != RCL_RET_OK) return 1;
  }
  FILE *file = fopen(path, "w");
  for (size_t i = 0; file && i < count; i++) fprintf(file, "%c%lld", i ? ',' : '[', ticks[i]);
  if (file) { fputs(count ? "]" : "[]", file); fclose(file); }
  _exit(0);
}
