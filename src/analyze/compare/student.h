/* Student's t distribution, for intervals and p values. df may be any positive number (Welch). NAN where an argument is. */
#pragma once

double infp_student_p(double t, double df);        /* both sides: how often |T| >= |t| */
double infp_student_quantile(double p, double df); /* t with P(T <= t) = p; 0 < p < 1 */
