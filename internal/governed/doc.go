// Package governed answers: what is known of a pod that a policy may govern? It gathers policies, pods, node and evidence
// into the one input from which verdicts are made, the same for admission, the responder and the policy's status.
package governed
