package observe

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// How long Start waits: for the first answer of the apiserver, as long as client-go does for a connection (an apiserver that is overloaded
// is silent for longer than one would think), and for everything.
const (
	firstAnswer = 30 * time.Second
	firstRead   = 2 * time.Minute
)

// awaitFirst returns when all that is needed has been read, or why it cannot be.
func (o *Observer) awaitFirst(ctx context.Context) error {
	answer, all := time.NewTimer(firstAnswer), time.NewTimer(firstRead)
	defer answer.Stop()
	defer all.Stop()
	for {
		if err := o.firstProblem(); err != nil {
			return err
		}
		if o.complete() {
			return nil
		}
		select {
		case <-o.steps:
		case <-answer.C:
			if !o.anAnswer() {
				return noAnswer(o.client, firstAnswer)
			}
		case <-all.C:
			return fmt.Errorf("reading the cluster: not done after %s: %s", firstRead, o.waitsFor())
		case <-ctx.Done():
			return fmt.Errorf("reading the cluster: %w", ctx.Err())
		}
	}
}

// firstProblem returns why a resource that is needed cannot be read, if waiting does
// not help.
func (o *Observer) firstProblem() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.feeds {
		if f.required() && !f.synced && f.err != nil {
			if err := refusal(f.question, f.verb, f.err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *Observer) complete() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.feeds {
		if !f.settled() {
			return false
		}
	}
	return true
}

func (o *Observer) anAnswer() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answered
}

// waitsFor names one resource that has not been read, and why where that is known.
func (o *Observer) waitsFor() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.feeds {
		if !f.settled() && f.err != nil {
			return fmt.Sprintf("%s: %v", f.question.resource, f.err)
		}
	}
	for _, f := range o.feeds {
		if !f.settled() {
			return fmt.Sprintf("%s have not all come", f.question.resource)
		}
	}
	return "nothing"
}

// noAnswer says that the apiserver is silent.
func noAnswer(client kubernetes.Interface, within time.Duration) error {
	address := "the server"
	if made, ok := client.CoreV1().RESTClient().(*rest.RESTClient); ok && made != nil { // nil of a fake
		address = made.Get().URL().Host
	}
	return fmt.Errorf("reaching the apiserver: no answer from %s within %s: check that it runs and that the kubeconfig names the right address", address, within)
}
