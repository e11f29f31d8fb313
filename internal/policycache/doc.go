// Package policycache answers: which policies are there, what did their systems say last, and what is known of a pod that they may
// govern?
//
// A Cache holds the policies, compiled. An Observer holds one connection and the newest evidence for each of them. A caller that needs
// evidence names the epoch and the age that it accepts: what is known is given at once, and only what is too old is asked for, by one
// observation for all callers that wait. Observations end by themselves, so that a system that hangs holds up only the callers that ask
// for it, and those only until their own contexts end.
//
// A Gatherer puts both together with pod and node into the one input from which verdicts are made, the same for admission, the responder
// and the policy's status. Track and Forget begin and end all that is held of a policy.
package policycache
