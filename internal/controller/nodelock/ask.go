package nodelock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	api "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/controller/wiring"
	"usher.sh/usher/internal/evictionrequest"
	"usher.sh/usher/internal/nodelock"
)

// ask has an EvictionRequest stand for each of the holders that are to leave, and for no others. What another client has withdrawn stays so.
func (l *look) ask(ctx context.Context, leave []nodelock.Holder) error {
	requests, err := l.requests(ctx)
	if err != nil {
		return err
	}
	var failed []error
	wanted := map[types.UID]bool{}
	for i := range leave {
		holder := &leave[i]
		wanted[holder.UID] = true
		if there := requests[holder.UID]; there != nil && !act.Withdrew(there) {
			continue
		}
		if may, err := l.mayBegin(ctx); err != nil || !may {
			return errors.Join(append(failed, err)...)
		}
		failed = append(failed, accepted(l.r.Act.Ask(ctx, l.policy.Name, holder), "requesting that pod "+holder.Pod.String()+" leaves"))
	}
	for _, uid := range slices.Sorted(maps.Keys(requests)) {
		request := requests[uid]
		if wanted[uid] || !evictionrequest.Stands(request) || evictionrequest.Settled(request) {
			continue
		}
		failed = append(failed, accepted(l.r.Act.Withdraw(ctx, request), "withdrawing request "+request.Name))
	}
	return errors.Join(failed...)
}

// requests are those that the policy's nodeLock has made, by the pods that they are for.
func (l *look) requests(ctx context.Context) (map[types.UID]*api.EvictionRequest, error) {
	all, err := wiring.NodeLockRequests(ctx, l.r.client, l.in.Policy)
	if err != nil {
		return nil, err
	}
	found := map[types.UID]*api.EvictionRequest{}
	for _, request := range all {
		if ref, ok := evictionrequest.RequestRef(request); ok {
			found[ref.UID] = request
		}
	}
	return found, nil
}

// accepted makes an error of what was refused. What is gone, and what has changed meanwhile, wakes the controller by itself.
func accepted(answer answers.Answer, doing string) error {
	switch answer.Code {
	case answers.Accepted, answers.Gone, answers.Conflict:
		return nil
	default:
		return fmt.Errorf("%s: %s: %s", doing, answer.Code, answer.Message)
	}
}
