// Package wake answers: when is it time to look at the machine again?
//
// The kernel is asked to say when memory becomes short: by PSI triggers, by thresholds of cgroup v1, by the events of cgroup
// v2. None of that is offered everywhere, and none says that a threshold of the agent is near; so there is a tick too, the
// shorter the sooner memory could be used up. It works on Linux only.
package wake
