// Package eviction answers: may this pod go?
//
// It is pure. A Policy is compiled from what its owner declared; Judge looks at one member with the evidence of its
// system and returns a verdict with every blocker; Admit is what admission says to a caller; Step is what Usher does for
// a governed pod that is wanted gone; ReconcileStatus puts a policy's status in order. The same functions stand behind the
// webhook, the manager, `usher why` and the simulator, so they cannot disagree.
//
// The order of effects is a contract: the actions of one result are carried out in their order, and the rest is dropped
// when one of them is refused. A permit is written before an eviction is let through, and a preparation is written down
// before the system is asked for it.
package eviction
