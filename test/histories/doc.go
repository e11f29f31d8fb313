// Package histories answers: what would happen to governed pods, whatever goes wrong?
//
// A history is a random run of the whole of Usher against a simulated apiserver and a simulated system: the real webhook,
// controllers, gatherer, observer of systems and system clients, in several replicas whose caches lag. Around them people
// drain, delete, crash, restart, lose machines and have members replaced. Nothing is real but Usher.
//
// Every call that leaves a replica waits at a gate until the scheduler lets it arrive, and perhaps again until its answer
// may: so two replicas are interleaved at each of their steps, answers are old when they arrive, and a replica can be killed
// between any two effects. All runs in a testing/synctest bubble: its clock is the simulated one, and the scheduler draws
// only when all others wait, so that a seed gives one history.
//
// What is re-implemented: the apiserver (store.go, patch.go, admission.go) and the queues (wake.go), because those of a manager
// start goroutines of their own. Which event fills which queue is the controllers' own declaration.
package histories
