// Package all answers: which systems does Usher know?
package all

import (
	"cmp"
	"fmt"
	"slices"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/system"
	"usher.sh/usher/internal/system/arangodb"
	"usher.sh/usher/internal/system/etcd"
	"usher.sh/usher/internal/system/foundationdb"
	"usher.sh/usher/internal/system/kubernetes"
	"usher.sh/usher/internal/system/openstack"
	"usher.sh/usher/internal/system/rest"
)

// Kinds returns every kind of system, sorted by name.
func Kinds() []system.Kind {
	return []system.Kind{arangodb.Kind(), etcd.Kind(), foundationdb.Kind(), rest.Kind(), kubernetes.Kind(), openstack.Kind()}
}

// Kind returns the kind of system that a policy's spec declares, if it declares exactly one.
func Kind(spec *v1alpha1.System) (system.Kind, bool) { return system.Of(Kinds(), spec) }

// Roles returns the built-in roles of all kinds, sorted by name. No two have the same name.
func Roles() ([]v1alpha1.Role, error) {
	var all []v1alpha1.Role
	for _, k := range Kinds() {
		roles, err := eviction.ParseRoles(k.Roles)
		if err != nil {
			return nil, fmt.Errorf("reading the roles of %s: %w", k.Name, err)
		}
		for _, r := range roles {
			if r.System != k.Name {
				return nil, fmt.Errorf("reading the roles of %s: role %s is one of %s", k.Name, r.Name, r.System)
			}
		}
		all = append(all, roles...)
	}
	slices.SortFunc(all, func(a, b v1alpha1.Role) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(all); i++ {
		if all[i-1].Name == all[i].Name {
			return nil, fmt.Errorf("reading the roles: two are called %s", all[i].Name)
		}
	}
	return all, nil
}
