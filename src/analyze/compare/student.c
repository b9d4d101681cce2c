#include "analyze/compare/student.h"

#include <math.h>
#include <stdbool.h>

enum { MOST_TERMS = 500, MOST_HALVINGS = 200 };

/* The continued fraction of the incomplete beta function by Lentz's method (Numerical Recipes, 6.4). */
static double beta_fraction(double a, double b, double x)
{
        const double tiny = 1e-300;
        double c = 1, d = 1 - (a + b) * x / (a + 1), ret;

        d = 1 / (fabs(d) < tiny ? tiny : d);
        ret = d;
        for (int m = 1; m < MOST_TERMS; m++) {
                const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                             odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
                double step;

                d = 1 + even * d;
                c = 1 + even / c;
                d = 1 / (fabs(d) < tiny ? tiny : d);
                c = fabs(c) < tiny ? tiny : c;
                ret *= d * c;
                d = 1 + odd * d;
                c = 1 + odd / c;
                d = 1 / (fabs(d) < tiny ? tiny : d);
                c = fabs(c) < tiny ? tiny : c;
                step = d * c;
                ret *= step;
                if (fabs(step - 1) < 1e-15)
                        break;
        }
        return ret;
}

/* lgamma(3) writes a global variable. */
static double log_gamma(double x)
{
        int sign;

        return lgamma_r(x, &sign);
}

/* The regularised incomplete beta function; y is 1 - x, which may be too small to be computed from it. */
static double beta(double a, double b, double x, double y)
{
        double front;

        if (x <= 0 || y <= 0)
                return x <= 0 ? 0 : 1;
        front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log(y));
        return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, y) / b;
}

double infp_student_p(double t, double df)
{
        const double t2 = t * t;

        if (isnan(t) || !(df > 0))
                return NAN;
        if (isinf(t))
                return 0;
        return beta(df / 2, 0.5, df / (df + t2), t2 / (df + t2));
}

double infp_student_quantile(double p, double df)
{
        const bool is_low = p < 0.5;
        const double both = 2 * (is_low ? p : 1 - p); /* both tails together */
        double low = 0, high = 1;

        if (!(p > 0 && p < 1) || !(df > 0))
                return NAN;
        while (infp_student_p(high, df) > both && high < 1e300)
                high *= 2;
        for (int i = 0; i < MOST_HALVINGS && high - low > 1e-14 * high; i++) {
                const double middle = low + (high - low) / 2;

                if (infp_student_p(middle, df) > both)
                        low = middle;
                else
                        high = middle;
        }
        return is_low ? -high : high;
}
