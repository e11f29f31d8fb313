package repair

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/replacement"
)

// equipment is what there is of what the pods of a set's members need beside themselves, as it was read once.
type equipment struct {
	at  time.Time
	has map[string]equipped // by the member's id
}

// equipped says whether all claims of a member are there, and its Service.
type equipped struct{ claims, service replacement.Tristate }

// suffices reports whether what was read is still good enough for these members: it is not old, knows all of them, and none of them lacked anything.
func (e *equipment) suffices(set *ofMemberSet, now time.Time) bool {
	if now.Sub(e.at) >= unwatched {
		return false
	}
	for id := range set.members {
		if has, known := e.has[id]; !known || has.claims == replacement.No || has.service == replacement.No {
			return false
		}
	}
	return true
}

// equipped reads which claims and Services there are for the members of a set. What was there a short time ago is taken to be there: what is missing is missing for
// minutes before anything is done about it. What is missing is read at each look, and what may not be read is not known. Of a member that goes it is not asked.
func (r *reconciler) equipped(ctx context.Context, set *ofMemberSet, fresh bool, now time.Time) (map[string]equipped, error) {
	key := client.ObjectKeyFromObject(set.MemberSet)
	if kept := r.equipmentOf(key); !fresh && kept.suffices(set, now) {
		return kept.has, nil
	}
	claims, services := objects{object: &corev1.PersistentVolumeClaim{}, left: mostMissing}, objects{object: &corev1.Service{}, left: mostMissing}
	read := equipment{at: now, has: map[string]equipped{}}
	for i := range set.Status.Members {
		m := &set.Status.Members[i]
		if leaves(m) {
			read.has[m.ID] = equipped{}
			continue
		}
		var has equipped
		var err error
		names, service := memberset.Needs(m)
		if has.claims, err = r.has(ctx, set, &claims, &corev1.PersistentVolumeClaimList{}, names...); err != nil {
			return nil, err
		}
		has.service = replacement.Yes
		if service != "" {
			if has.service, err = r.has(ctx, set, &services, &corev1.ServiceList{}, service); err != nil {
				return nil, err
			}
		}
		read.has[m.ID] = has
	}
	r.keepEquipment(key, read)
	return read.has, nil
}

func (r *reconciler) equipmentOf(set client.ObjectKey) equipment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.equipment[set]
}

func (r *reconciler) keepEquipment(set client.ObjectKey, read equipment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.equipment == nil {
		r.equipment = map[client.ObjectKey]equipment{}
	}
	r.equipment[set] = read
}

// objects is what there is of one kind for the members of a set.
type objects struct {
	object  client.Object
	read    bool
	unknown bool            // it may not be read
	names   map[string]bool // of those that carry the set's label
	left    int             // how many more are looked for one by one
}

// has reports whether all of these are there. What does not carry the set's label is looked for by its name: who took that off has not deleted it.
func (r *reconciler) has(ctx context.Context, set *ofMemberSet, s *objects, list client.ObjectList, names ...string) (replacement.Tristate, error) {
	if len(names) == 0 {
		return replacement.Yes, nil
	}
	if err := r.listOnce(ctx, set, s, list); err != nil {
		return replacement.Unknown, err
	}
	all := replacement.Yes
	for _, name := range names {
		switch is, err := r.isThere(ctx, set, s, name); {
		case err != nil:
			return replacement.Unknown, err
		case is == replacement.No:
			return replacement.No, nil
		case is == replacement.Unknown:
			all = replacement.Unknown
		}
	}
	return all, nil
}

// listOnce reads those of the set, once.
func (r *reconciler) listOnce(ctx context.Context, set *ofMemberSet, s *objects, list client.ObjectList) error {
	if s.read {
		return nil
	}
	s.read, s.names = true, map[string]bool{}
	var failed error
	err := observe.EachPage(ctx, r.live, list, func(page client.ObjectList) bool {
		failed = meta.EachListItem(page, func(o runtime.Object) error {
			object, err := meta.Accessor(o)
			if err == nil {
				s.names[object.GetName()] = true
			}
			return err
		})
		return failed == nil
	}, client.InNamespace(set.Namespace), client.MatchingLabels{v1alpha1.MemberSetLabel: set.Name})
	if apierrors.IsForbidden(err) {
		s.unknown = true
		return nil
	}
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("listing what members of MemberSet %s need: %w", set.Name, err)
	}
	return nil
}

func (r *reconciler) isThere(ctx context.Context, set *ofMemberSet, s *objects, name string) (replacement.Tristate, error) {
	switch {
	case s.names[name]:
		return replacement.Yes, nil
	case s.unknown, s.left == 0:
		return replacement.Unknown, nil
	}
	s.left--
	err := r.live.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: name}, s.object)
	switch {
	case apierrors.IsForbidden(err):
		return replacement.Unknown, nil
	case apierrors.IsNotFound(err):
		return replacement.No, nil
	case err != nil:
		return replacement.Unknown, fmt.Errorf("reading what a member of MemberSet %s needs: %w", set.Name, err)
	}
	return replacement.Yes, nil
}
