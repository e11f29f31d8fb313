// Package expiry answers: which eviction requests outlive those that made them? A drain withdraws what it has asked for when it ends,
// and cannot where it was killed. A caller that admission refused has asked for nothing itself, and only asks again while it goes on. This
// controller withdraws the requests of drains that have shown no sign of life for snapshot.LiveFor, and those that admission made for
// callers that have given up, so that no governed pod is evicted for a client that is gone. It touches no other requests. Its keys are
// requests: what one costs does not depend on how many there are.
package expiry
