// Package drain answers: which pods leave a node next, and what keeps the others?
//
// It is pure: Decide looks at one snapshot, the operator's Request and the Ledger
// of what this process has asked for so far, and returns actions and blockers. The
// caller carries the actions out and enters the answers into the ledger. The same
// function stands behind `usher drain`, `usher plan`, `usher why` and the simulator.
//
// The order of effects is a contract: actions of one Decision are independent of
// each other and may be carried out at the same time; what must come first is
// returned alone, and what follows is only returned once its effect was observed.
package drain
