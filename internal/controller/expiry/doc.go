// Package expiry answers: which eviction requests outlive the drain that made them? A drain withdraws what it has asked
// for when it ends, and cannot where it was killed. This controller withdraws the requests of drains that have shown no sign
// of life for snapshot.LiveFor, so that no governed pod is evicted for a drain that is gone. It touches no other requests.
package expiry
