// Package arangodb answers: what may leave an ArangoDB deployment, and how is it made ready?
//
// The agents are asked for their view of each other, and their leader for the state of the cluster, once per observation.
// Coordinators are asked for work only, and to find the agents where the policy does not name them: a decision must not
// depend on servers that the decision may be about.
package arangodb
