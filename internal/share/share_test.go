package share

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestShares(t *testing.T) {
	s := New(2)
	first, _ := s.Try("a")
	second, _ := s.Try("a")
	if _, ok := s.Try("a"); ok {
		t.Error("a namespace has three of two")
	}
	other, ok := s.Try("b")
	if !ok {
		t.Fatal("another namespace has none")
	}
	first()
	third, ok := s.Try("a")
	if !ok {
		t.Fatal("what was given back cannot be taken")
	}
	for _, release := range []func(){second, third, other} {
		release()
	}
	if len(s.slots) > 0 {
		t.Errorf("remembered for ever: %v", s.slots)
	}
}

func TestTakeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		release, _ := s.Take(t.Context(), "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Take(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		time.AfterFunc(time.Second, release)
		if _, err := s.Take(t.Context(), "a"); err != nil {
			t.Errorf("error %v", err)
		}
	})
}
