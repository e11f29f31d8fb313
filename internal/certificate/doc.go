// Package certificate answers: with which certificate does the webhook server prove to the apiserver that it is Usher's?
//
// It keeps an authority and a serving certificate of its own in one Secret, renews both in time, and writes the authority
// into the webhook configurations. Every replica may do all of it at any moment: the Secret is written with its resource
// version as precondition, and writing an authority twice changes nothing.
//
// A new authority is trusted before anything is signed by it. The configurations hold the old and the new one until the
// old one has ended, and the serving certificate changes hands only when the new one had time to arrive there. Otherwise
// there would be moments in which the apiserver refuses every eviction of a governed pod, because it must not ask Usher.
package certificate
