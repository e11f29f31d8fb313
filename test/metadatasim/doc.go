// Package metadatasim answers: what would the metadata service of a cloud say to a machine?
//
// EC2, GCE and Azure each are the service of one machine, over HTTP, with the dances that each wants of its client: tokens, etags, headers.
// What is announced stays announced until it is withdrawn. Time is the process's own, so that tests play it in a bubble of testing/synctest,
// and the lab in real time.
package metadatasim
