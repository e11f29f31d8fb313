package main

import "time"

// pace keeps a load at a rate. It counts from the start, so that a machine that was busy for a while is caught up with.
type pace struct {
	start time.Time
	rate  int // a second; 0 is as fast as it goes
	done  int
}

func startPace(rate int) *pace { return &pace{start: time.Now(), rate: rate} }

// wait is called after each unit, and returns when the next may follow.
func (p *pace) wait() {
	if p.rate == 0 {
		return
	}
	p.done++
	if early := time.Duration(p.done)*time.Second/time.Duration(p.rate) - time.Since(p.start); early > 0 {
		<-time.After(early)
	}
}
