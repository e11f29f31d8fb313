package act

import "slices"

// withFinalizer returns finalizers with one of them, or without.
func withFinalizer(all []string, name string, held bool) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(f string) bool { return f == name })
	if held {
		all = append(all, name)
	}
	return all
}
